"""pdb over TCP."""
