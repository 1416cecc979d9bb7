"""Files about the agent's session and its processes, and what can be read from /proc about them."""
