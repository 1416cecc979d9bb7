"""Hosts reached with OpenSSH."""
