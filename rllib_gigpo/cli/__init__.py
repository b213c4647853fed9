"""The rllib command."""
