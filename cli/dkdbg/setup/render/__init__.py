"""A plan becomes text, text becomes files."""
