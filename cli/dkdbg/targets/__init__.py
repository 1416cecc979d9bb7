"""Places where a process can run, as wrappers of command lines."""
