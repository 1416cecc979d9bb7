"""Which paths of the local root take part: git, .dockerignore, dkdbg.toml and what is out by default."""
