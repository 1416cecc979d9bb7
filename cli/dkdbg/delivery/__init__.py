"""Builds the single file of agent and debugpy, and brings it to a target."""
