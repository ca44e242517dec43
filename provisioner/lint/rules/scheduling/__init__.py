"""Scheduling and quotas."""
