"""Forward ports and run programs of a machine over one command; connections survive cuts. Other end: `agent/relay`."""
