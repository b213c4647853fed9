"""Checks a user's environment against the contract of environments; `rllib doctor env` prints what they find."""

from rllib_gigpo.env_checks.all_checks import check_contract
from rllib_gigpo.env_checks.check_result import CheckResult, Status

__all__ = ["CheckResult", "Status", "check_contract"]
