"""Containers and compose services."""
