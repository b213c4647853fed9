"""Configurations of GRPO."""
