"""Configurations of RLOO."""
