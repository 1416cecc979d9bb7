"""Detect frameworks, torch with its CUDA, and the need for a GPU."""
