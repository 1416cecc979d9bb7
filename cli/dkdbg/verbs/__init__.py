"""The verbs of the command line: a module each, with its options and its action."""
