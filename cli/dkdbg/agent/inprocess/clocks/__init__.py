"""Clocks and timeouts that stop while a process of the job is stopped."""
