"""Profilers for processes of the program, selected by name or rank."""
