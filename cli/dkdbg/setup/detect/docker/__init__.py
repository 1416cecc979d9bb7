"""Read a repository's Docker files: Dockerfiles, compose files, dev containers, image names, `docker run` lines."""
