"""The hang map: where all processes of a job are, which of them are at the same place, and which are not."""
