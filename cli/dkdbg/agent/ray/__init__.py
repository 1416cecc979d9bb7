"""Lists workers of a Ray cluster and proxies their debug ports. Runs where the cluster can be reached."""
