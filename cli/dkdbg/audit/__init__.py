"""`dkdbg audit`: find what a debugger leaves open in a repository's files. Only reads: runs and builds nothing."""
