"""Render a plan as text, and write it as files."""
