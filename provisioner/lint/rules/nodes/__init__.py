"""Nodes of tenant clusters."""
