"""Rules for which paths of the local root take part: git, .dockerignore, dkdbg.toml and the defaults."""
