"""The base that the group-relative algorithms share."""
