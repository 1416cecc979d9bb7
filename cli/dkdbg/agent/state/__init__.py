"""The agent's session and the processes below it, as files."""
