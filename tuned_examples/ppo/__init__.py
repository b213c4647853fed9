"""Configurations of PPO."""
