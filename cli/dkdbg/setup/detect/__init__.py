"""Reads a repository, decides nothing about it."""
