"""Rules over any manifests, ours or not: what people really get wrong when they serve models on Kubernetes.

`reading` makes files into a `World`, `rules/` looks at it, `engine` joins both. Everything but `reading` is pure.
"""
