"""Launchers of Python programs: one table (`table`), the classes of its rows, and whole command lines (`lines`).

At the very bottom: Python 3.8, standard library, nothing else of dkdbg. The agent carries it into containers.
"""
