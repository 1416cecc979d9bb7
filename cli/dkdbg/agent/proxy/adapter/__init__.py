"""The process that runs debugpy's adapter."""
