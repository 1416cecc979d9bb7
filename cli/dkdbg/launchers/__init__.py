"""Launchers of Python programs: one table (`table`), the classes of its rows, and whole command lines (`lines`).

The lowest layer: Python 3.8 and the standard library, no other module of dkdbg. The agent includes it.
"""
