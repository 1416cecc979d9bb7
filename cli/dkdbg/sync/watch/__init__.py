"""What changes in the local tree, as it happens."""
