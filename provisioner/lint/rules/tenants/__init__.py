"""Tenant clusters."""
