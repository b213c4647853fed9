"""What a config takes before it is run: placement on GPUs, memory of each, bytes per weight delivery."""

from rllib_gigpo.planning.placement import Plan, PlanRefusedError, plan

__all__ = ["Plan", "PlanRefusedError", "plan"]
