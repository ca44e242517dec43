"""Changing many endpoints. Empty until roll-outs are built."""
