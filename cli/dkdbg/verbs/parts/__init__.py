"""Parts that several verbs share."""
