"""Lists the workers of a Ray cluster and proxies their debug ports; runs on a machine that can reach the cluster."""
