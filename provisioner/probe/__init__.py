"""Asks replicas: health, models, one small real request."""
