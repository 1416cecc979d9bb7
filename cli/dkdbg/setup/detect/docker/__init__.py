"""What a repository says to Docker: Dockerfiles, compose files, dev containers, images, and what runs inside."""
