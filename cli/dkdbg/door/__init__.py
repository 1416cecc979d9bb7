"""The host's door: one loopback port in front of any number of containers' doors."""
