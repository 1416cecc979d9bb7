"""What the program computes on: torch and its CUDA, a GPU or not, the frameworks."""
