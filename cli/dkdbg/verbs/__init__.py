"""Command-line verbs, one module each."""
