"""Configurations of GAGPO."""
