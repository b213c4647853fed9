"""Configurations of DAPO."""
