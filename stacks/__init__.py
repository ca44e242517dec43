"""Pulumi programs: the platform and its tiers. They read what `provisioner` renders, which never imports them."""
