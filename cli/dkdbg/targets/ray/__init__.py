"""Workers of a Ray cluster."""
