"""The hang map: where the processes of a job are, and which differ."""
