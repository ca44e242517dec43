"""Auto Nodes: pools of a tenant cluster become node claims, claims become nodes, and everything is given back."""
