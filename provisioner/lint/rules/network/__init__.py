"""Network policies and names."""
