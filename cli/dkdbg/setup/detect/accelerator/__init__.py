"""Detect frameworks, the version and CUDA of torch, and whether the program needs a GPU."""
