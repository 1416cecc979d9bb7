"""Command-line verbs, one module each: its options and its action."""
