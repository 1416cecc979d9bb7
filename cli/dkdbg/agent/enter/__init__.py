"""A session around Pythons that run already: how they are entered, and the wait around them."""
