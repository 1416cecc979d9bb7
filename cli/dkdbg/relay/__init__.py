"""Forward ports of a remote machine and run programs on it, over one command; connections survive when that is cut.

The remote end is `agent/relay`.
"""
