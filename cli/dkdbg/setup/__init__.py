"""`dkdbg init`: detect facts in a repository, plan the debug service, render the files."""
