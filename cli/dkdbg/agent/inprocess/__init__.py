"""Code that runs inside processes of the user's program. Standard library only, CPython 3.8 and newer."""
