"""Code that runs inside the processes of the user's program. Standard library only, CPython 3.8 and newer."""
