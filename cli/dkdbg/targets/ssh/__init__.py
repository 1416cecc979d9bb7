"""Hosts reached by OpenSSH."""
