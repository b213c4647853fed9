"""Checks of the machine and of what is installed on it; `rllib doctor` prints what they find."""

from rllib_gigpo.machine_checks.all_checks import check_machine

__all__ = ["check_machine"]
