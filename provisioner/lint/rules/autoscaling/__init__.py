"""Autoscaling."""
