"""Options of the verbs."""
