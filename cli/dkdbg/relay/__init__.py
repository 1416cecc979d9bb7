"""Ports and programs of a remote machine over one command; connections survive cuts. `agent/relay` is the other end."""
