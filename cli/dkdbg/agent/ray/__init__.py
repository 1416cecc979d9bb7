"""Ray: which of its workers wait for a debugger, and one door before them. It runs where the cluster can be reached."""
