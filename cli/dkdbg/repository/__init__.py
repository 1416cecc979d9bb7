"""Read and write files of the user's repository."""
