"""A gateway without a control plane: what it serves comes from its settings, and its keys from a file."""
