"""The attach proxy: one loopback port in front of the agents of any number of targets, its upstreams."""
