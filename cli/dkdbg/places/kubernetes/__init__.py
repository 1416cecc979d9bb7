"""Pods of Kubernetes and OpenShift, reached with `kubectl`, or `oc` where there is only that (docs/adr/0017)."""
