"""Two renderings of the template pack compared by their effect on running endpoints. Pure."""
