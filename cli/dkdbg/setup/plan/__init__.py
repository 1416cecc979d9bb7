"""Decides, touches nothing."""
