"""`dkdbg init`: detect facts, plan the debug service, render files."""
