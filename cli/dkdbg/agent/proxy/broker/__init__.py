"""The session broker: multiplexes the clients of one adapter."""
