"""`dkdbg doctor`: a table of checks of this machine, its engine, this repository, or a target."""
