"""The host's side of sync.

Select, index and compare files, and plan the operations on the target (docs/adr/0010).
"""
