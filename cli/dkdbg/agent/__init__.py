"""The agent, which runs beside the user's program: standard library only, Python 3.8+."""
