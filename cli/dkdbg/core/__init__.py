"""Values and protocols that all packages share. No I/O."""
