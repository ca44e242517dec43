"""vCluster Platform, Argo CD and Gateway API over the Kubernetes API."""
