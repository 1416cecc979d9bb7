"""The remote end of a sync. It travels as source text; standard library only."""
