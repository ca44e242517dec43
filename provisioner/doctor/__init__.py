"""Checks of an installation. Empty until it is built."""
