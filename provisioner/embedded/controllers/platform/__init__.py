"""What vCluster Platform does for projects and tenant clusters: everything about nodes is next door in `nodes`."""
