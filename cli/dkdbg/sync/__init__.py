"""Sync, the host's side: what takes part, what it looks like, what changed, what has to happen there (docs/adr/0010)."""
