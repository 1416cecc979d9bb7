"""Kinds of targets, one module or folder each; `registry` lists them."""
