"""List workers of a Ray cluster and proxy their debug ports, where the cluster is reachable."""
