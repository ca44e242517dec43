"""One suite for every Kubernetes API server that the project runs against: the embedded one and, where there is one, a
real kube-apiserver. What passes on both is what clients may rely on."""
