"""The agent's own process: one run of a program, or run after run."""
