"""The port that editors attach to."""
