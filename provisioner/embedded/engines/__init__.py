"""Model servers that run as local processes in the place of a container."""
