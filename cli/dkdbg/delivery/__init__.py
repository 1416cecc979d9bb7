"""The single file that travels, agent and debugpy in one, and how it is brought to a place."""
