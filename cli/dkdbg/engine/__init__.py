"""The only rooms that speak to Docker. What a person chose (DOCKER_HOST, DOCKER_CONTEXT, `docker context use`) holds in all."""
