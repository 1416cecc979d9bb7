"""Forward ports of a remote machine and run programs there, over one command; connections survive cuts of it.

The remote end is `agent/relay`.
"""
