"""The parts of a tier's stack, one component in each file."""
