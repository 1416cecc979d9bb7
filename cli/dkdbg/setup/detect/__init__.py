"""Read a repository into facts, without decisions."""
