"""Jinja templates compiled once per tier and shape into canonical manifests. Pure."""
