"""Changes to debugpy and pydevd inside a process that has joined. `privates` lists every internal that they use."""
