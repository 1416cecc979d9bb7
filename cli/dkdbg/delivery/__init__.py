"""Build the single file of agent and debugpy, and upload it to a target."""
