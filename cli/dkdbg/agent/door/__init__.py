"""What passes between the clients of the port and debugpy's adapter."""
