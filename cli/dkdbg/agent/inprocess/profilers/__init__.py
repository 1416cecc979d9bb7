"""Profilers around processes of the program, chosen by name or rank."""
