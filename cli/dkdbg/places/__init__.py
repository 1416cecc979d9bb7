"""The kinds of places, a module each, strangers to one another; `registry` knows them all."""
