"""The process that runs debugpy's adapter, and the agent's side of it."""
