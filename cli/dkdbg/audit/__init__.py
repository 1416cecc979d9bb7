"""`dkdbg audit`: find what a debugger leaves open in the files of a repository. It reads, and runs or builds nothing."""
