"""Sync, the local side: what takes part, what it looks like, what changed (docs/adr/0010)."""
