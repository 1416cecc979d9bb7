"""The receiving side of sync (docs/adr/0010): the host sends these modules through standard input, and they write."""
