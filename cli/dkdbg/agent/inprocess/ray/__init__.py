"""Drivers and workers of Ray: the driver sends these modules to its workers as text."""
