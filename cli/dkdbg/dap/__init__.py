"""A headless client of the Debug Adapter Protocol."""
