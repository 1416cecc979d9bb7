"""Forward ports of a remote machine and run programs on it, over one command; connections survive when that is cut.

The remote end is `agent/relay`. The command runs again after a cut: the streams of one run are a transport. The keeper,
a remote process, holds the connections and the program meanwhile. A channel is one forwarded connection.
"""
