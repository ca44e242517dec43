"""Runs beside the model server in a replica. Empty until it is built; the workload controller stands in."""
