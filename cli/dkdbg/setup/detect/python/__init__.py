"""The Python of a repository: its version, its dependencies and their manager, what its source shows."""
