"""Attaches to running Python processes by PID."""
