"""The remote end of a relay: keeps connections to ports and programs while transports (such as ssh) are replaced."""
