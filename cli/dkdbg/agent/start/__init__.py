"""What starts the agent from inside a job, by environment variables alone: PYTHONPATH leads to the single file."""
