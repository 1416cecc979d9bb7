"""The host's end of one stream: starts the receiver on a target, sends operations and tracks their results."""
