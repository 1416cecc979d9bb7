"""How the program is started: where command lines are shown, what each starts, which program is the one."""
