"""observe -> derive -> publish: one immutable, versioned snapshot of routes and key digests."""
