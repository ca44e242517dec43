"""The controllers of the embedded control plane: what vCluster Platform, Argo CD, cert-manager, KEDA, a Gateway API
implementation and the kubelet do in production, as far as an endpoint needs them.

Every controller is an ordinary client of the Kubernetes API (`api`), driven by `loop`; none of them imports the API
server, so that they also run against a real one.
"""
