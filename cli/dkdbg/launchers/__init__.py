"""What starts Python programs, one file a launcher: how it is recognised and shown, whether it serves, its ranks.

At the very bottom: Python 3.8, standard library, nothing else of dkdbg. The agent carries it into containers.
"""
