"""Tiers, models, runtimes and the Site: frozen types and their loader. The folder listing is the registry."""
