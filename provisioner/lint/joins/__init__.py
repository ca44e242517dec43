"""What rules of several areas work out alike, joined over the whole world. Rules call it; it never finds anything."""
