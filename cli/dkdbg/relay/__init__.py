"""Ports and programs of a remote machine over one command. Connections survive cuts. `agent/relay` is the other end."""
