"""The remote end of a sync. Travels as source text; standard library only."""
