"""Bodies of requests: bounded, the model found to the byte, everything else left as it was sent."""
