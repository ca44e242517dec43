"""Go's text templates as far as Helm charts use them: cut into tokens, parsed, and run within bounds. Pure."""
