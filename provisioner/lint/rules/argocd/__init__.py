"""Argo CD."""
