"""Presents tensors and arrays in an editor's Variables view."""
