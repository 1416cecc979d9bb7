"""Render a plan as text, and write the files."""
