"""Backup and restore. Empty until it is built."""
