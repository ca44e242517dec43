"""What a gateway and the control plane tell each other; never in the way of a request."""
