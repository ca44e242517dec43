"""HTTP in front of the clusters: paths, parameters, bodies and answers of the Kubernetes API."""
