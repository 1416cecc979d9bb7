"""Find out how the program is started: read the command lines in a repository, and choose the program."""
