"""Read whole command lines: wrappers before the launcher, shells around it, lines of a document."""
