"""Watches the local tree for changes."""
