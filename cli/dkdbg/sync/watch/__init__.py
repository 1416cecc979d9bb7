"""Changes in the local tree, as they happen."""
