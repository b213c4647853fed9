"""The algorithms; each a small folder over the shared base in group_policy."""
