"""Values that every layer shares: what was observed, what was decided, what the user configured."""
