"""The remote end of a relay: keeps connections while transports come and go."""
