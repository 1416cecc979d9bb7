"""`dkdbg audit`: find debuggers and secrets that a repository's files expose. Only reads; runs and builds nothing."""
