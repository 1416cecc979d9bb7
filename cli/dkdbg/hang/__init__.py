"""The hang map: where each process of a job is, and which ranks differ."""
