"""Connections that outlive the transport below them: the same code on both machines, and what keeps them over there."""
