"""What the agent knows of its session and the processes below it, as files and names."""
