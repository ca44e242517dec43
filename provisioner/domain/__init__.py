"""Words and rules of the product, on the standard library alone."""
