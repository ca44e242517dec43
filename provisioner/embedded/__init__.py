"""The embedded control plane for laptops, demos and tests."""
