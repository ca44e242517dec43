"""The few loops of a real cluster's controller manager that clients wait for."""
