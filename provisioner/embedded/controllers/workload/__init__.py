"""Workloads of tenant clusters: from StatefulSets, Deployments and Jobs to processes on this machine."""
