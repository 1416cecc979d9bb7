"""One thin module a verb."""
