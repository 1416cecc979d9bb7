"""The agent's own process: runs the program once, or again and again."""
