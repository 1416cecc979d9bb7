"""Stands between editors and debugpy: the listener, the session broker, and the process of the adapter."""
