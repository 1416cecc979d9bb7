"""Plan the files for a repository from facts and configuration; no I/O."""
