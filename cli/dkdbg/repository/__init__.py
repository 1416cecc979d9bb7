"""Reads and writes files of the user's repository."""
