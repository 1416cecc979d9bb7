"""Detect a repository's Python version, dependencies, package manager and source files."""
