"""The platform's stack: what an installation needs once on its control plane clusters."""
