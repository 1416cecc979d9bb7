"""The target behind one stream: starts the receiver there, sends operations and tracks their results."""
