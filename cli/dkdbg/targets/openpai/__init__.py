"""Jobs of OpenPAI."""
