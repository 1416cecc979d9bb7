"""Code that several verbs share."""
