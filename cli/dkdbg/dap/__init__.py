"""A small headless client of the Debug Adapter Protocol."""
