"""Jobs that connect to a waiting `dkdbg attach --listen`."""
