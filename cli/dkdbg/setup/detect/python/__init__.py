"""Detect the Python of a repository: its version, its dependencies and their manager, and its source files."""
