"""Forward ports of a remote machine and run programs there, over one command; connections survive when it is cut.

The remote end is `agent/relay`.
"""
