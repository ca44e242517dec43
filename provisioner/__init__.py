"""Tenantry: managed-inference endpoints on vCluster tenant clusters."""
