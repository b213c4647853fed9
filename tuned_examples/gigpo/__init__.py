"""Configurations of GiGPO."""
