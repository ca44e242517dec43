"""Gateway API: conditions of Gateways and HTTPRoutes, and the TLS listener before tenants' replicas."""
