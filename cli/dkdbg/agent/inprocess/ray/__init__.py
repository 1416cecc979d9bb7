"""Code in Ray's drivers and workers; a driver sends its workers what they need, as source text or a zip."""
