"""The local tree: an index of it, differences between indexes, and the content of files."""
