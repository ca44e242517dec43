"""The command line: one file per noun; parses, calls, prints; no logic."""
