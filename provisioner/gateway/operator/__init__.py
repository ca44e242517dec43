"""What an operator sees of a gateway: counts, status, health."""
