"""What runs in the processes of the user's program."""
