"""Read a repository into facts; decisions are made in `plan`."""
