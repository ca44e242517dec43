"""Two renderings compared by their effect on running endpoints. Pure. Empty until previews are built."""
