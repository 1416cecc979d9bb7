"""Starts the agent from environment variables alone: PYTHONPATH names the single file."""
