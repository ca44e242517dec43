"""Rules over any manifests. Pure. Empty until the template pack grows its linter."""
