"""Usage: gateways' records become hourly sums, and sums are asked for by the hour."""
