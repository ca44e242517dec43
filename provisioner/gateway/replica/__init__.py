"""Replicas: connections to them, which of them may be used, and in which order."""
