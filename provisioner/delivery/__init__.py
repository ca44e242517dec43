"""The git repository that Argo CD reads."""
