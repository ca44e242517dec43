"""How two versions of an object become one: server-side apply with its field owners, and the three kinds of patch."""
