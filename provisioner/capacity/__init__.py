"""Where capacity comes from. Empty until providers other than the Platform's own exist."""
