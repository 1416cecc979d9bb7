"""Values and protocols that every capability shares. No I/O."""
