"""The API server half of the embedded control plane: the Kubernetes API over SQLite, for laptops and tests.

One process serves many clusters (the control plane cluster and each tenant cluster). It knows nothing of the
controllers: they are API clients like any other, so that they can also run against a real kube-apiserver.
Nothing outside `server` and `kubeconfig` is meant to be called from elsewhere.
"""
