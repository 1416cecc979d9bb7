"""What the local tree looks like: an index of it, what differs from one, and the content of a file."""
