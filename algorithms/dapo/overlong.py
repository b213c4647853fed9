"""DAPO's soft over-long penalty (arXiv 2503.14476, equation 13)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from rllib_gigpo.algorithms.group_policy.advantage_math import Float64s, check_not_negative, column


def overlong_penalties(
    response_lengths: ArrayLike, *, max_response_tokens: int, buffer_tokens: int, penalty: float = 1.0
) -> Float64s:
    """penalty · min(1, max(0, |y| − (L_max − L_cache)) / L_cache): to be subtracted from the reward of each response.

    Args:
        response_lengths: int[T], |y| in tokens.
        max_response_tokens: L_max, where responses are cut.
        buffer_tokens: L_cache: how many tokens before L_max the penalty begins. 0 is off.
        penalty: For a response of L_max tokens or more, in reward units; at least 0.

    Returns:
        float64[T], from 0 to `penalty`; the equation's value with its sign changed where `penalty` is 1.

    Raises:
        ValueError: An option is out of its range, or `response_lengths` is not a column of integers.
    """
    check_not_negative(penalty=penalty)
    if not 0 <= buffer_tokens <= max_response_tokens:
        raise ValueError(
            f"buffer_tokens is {buffer_tokens}; it must be from 0 to max_response_tokens, {max_response_tokens}"
        )
    lengths = column("response_lengths", response_lengths, kinds="iu").astype(np.float64)
    if buffer_tokens == 0:
        return np.zeros(len(lengths))
    exceeding = lengths - (max_response_tokens - buffer_tokens)
    return penalty * np.clip(exceeding / buffer_tokens, 0.0, 1.0)
