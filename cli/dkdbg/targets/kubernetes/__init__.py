"""Pods, workloads and debug copies of them."""
