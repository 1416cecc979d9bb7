"""The host's side of sync.

It selects, indexes and compares files, and plans the operations on the target (docs/adr/0010).
"""
