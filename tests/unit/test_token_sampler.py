"""Inverse-CDF draws: which token a uniform number gives, how often tokens come, and the log-prob that is reported."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from rllib_gigpo.inference.protocol import SamplingParams
from rllib_gigpo.inference.token_sampler import draw_tokens, uniform_stream

pytestmark = pytest.mark.unit

PROBS = [0.1, 0.4, 0.2, 0.3]
ALMOST_ONE = float(np.nextafter(1.0, 0.0))
STREAM_OF_SEED_0 = [0.011546754286331562, 0.24154919656271812]


def params(temperature: float = 1.0, top_p: float = 1.0, top_k: int = 0) -> SamplingParams:
    return SamplingParams(max_response_tokens=1, temperature=temperature, top_p=top_p, top_k=top_k)


def draw(probs: list[float], uniforms: list[float], sampling: SamplingParams) -> tuple[list[int], list[float]]:
    """The tokens and log-probs that rows of the same distribution draw with these uniforms."""
    logits = torch.tensor(probs).log().expand(len(uniforms), -1)
    ids, logp = draw_tokens(logits, torch.tensor(uniforms, dtype=torch.float64), [sampling] * len(uniforms))
    assert ids.dtype == torch.int64 and logp.dtype == torch.float32
    return ids.tolist(), logp.tolist()


def test_a_uniform_number_falls_into_the_interval_of_its_token() -> None:
    ids, logp = draw(PROBS, [0.0, 0.099, 0.101, 0.499, 0.501, 0.699, 0.701, ALMOST_ONE], params())
    assert ids == [0, 0, 1, 1, 2, 2, 3, 3]
    # float32 log-softmax of numbers near 1: a few units of 1e-7.
    assert logp == pytest.approx([math.log(PROBS[i]) for i in ids], abs=1e-6)


def test_tokens_come_as_often_as_their_probability_says() -> None:
    count = 20_000
    ids, _ = draw(PROBS, uniform_stream(seed=5, count=count).tolist(), params())
    observed = np.bincount(ids, minlength=4)
    expected = count * np.array(PROBS)
    # Chi-square, 3 degrees of freedom: 16.3 is exceeded with probability 0.001; the seed is fixed.
    assert ((observed - expected) ** 2 / expected).sum() < 16.3


def test_temperature_sharpens_the_distribution_and_its_log_prob() -> None:
    # Temperature 0.5 squares the probabilities: 1, 16, 4, 9 of 30.
    ids, logp = draw(PROBS, [0.02, 0.5, 0.6, 0.9], params(temperature=0.5))
    assert ids == [0, 1, 2, 3]
    assert logp == pytest.approx([math.log(p / 30) for p in (1, 16, 4, 9)], abs=1e-6)


def test_a_tiny_temperature_is_greedy_without_overflow() -> None:
    ids, logp = draw(PROBS, [0.0, 0.5, ALMOST_ONE], params(temperature=1e-30))
    assert ids == [1, 1, 1] and logp == [0, 0, 0]


def test_greedy_takes_the_most_likely_token_with_the_untempered_log_prob() -> None:
    ids, logp = draw(PROBS, [0.0, ALMOST_ONE], params(temperature=0, top_k=1, top_p=0.1))
    assert ids == [1, 1]
    assert logp == pytest.approx([math.log(0.4)] * 2, abs=1e-6)


def test_top_k_draws_from_the_k_most_likely_renormalised() -> None:
    # Left: 0.4 and 0.3, in order of probability, so 4/7 and 3/7.
    ids, logp = draw(PROBS, [0.0, 0.57, 0.58, ALMOST_ONE], params(top_k=2))
    assert ids == [1, 1, 3, 3]
    assert logp == pytest.approx([math.log(4 / 7)] * 2 + [math.log(3 / 7)] * 2, abs=1e-6)


def test_top_k_beyond_the_vocabulary_is_off() -> None:
    uniforms = uniform_stream(seed=1, count=50).tolist()
    assert draw(PROBS, uniforms, params(top_k=9)) == draw(PROBS, uniforms, params())


@pytest.mark.parametrize(
    ("top_p", "left"),
    [(0.05, {1}), (0.39, {1}), (0.41, {1, 3}), (0.69, {1, 3}), (0.71, {1, 2, 3}), (0.95, {0, 1, 2, 3})],
)
def test_top_p_leaves_the_smallest_set_that_holds_the_mass(top_p: float, left: set[int]) -> None:
    ids, logp = draw(PROBS, np.linspace(0, ALMOST_ONE, 400).tolist(), params(top_p=top_p))
    assert set(ids) == left
    mass = sum(PROBS[i] for i in left)
    assert logp == pytest.approx([math.log(PROBS[i] / mass) for i in ids], abs=1e-6)


def test_top_p_acts_on_what_top_k_left() -> None:
    # top_k=2 leaves 4/7 and 3/7, of which 0.5 takes only the first; of the whole distribution it would take two.
    ids, logp = draw(PROBS, [0.0, 0.5, ALMOST_ONE], params(top_k=2, top_p=0.5))
    assert ids == [1, 1, 1] and logp == [0, 0, 0]


def test_rows_of_one_batch_keep_their_own_parameters() -> None:
    mixed = [
        params(temperature=0),
        params(top_k=2),
        params(),
        params(top_p=0.71),
        params(top_k=2),
        params(temperature=2),
    ]
    logits = torch.from_numpy(np.random.default_rng(0).normal(size=(len(mixed), 30)))
    uniforms = torch.from_numpy(uniform_stream(seed=2, count=len(mixed)))
    ids, logp = draw_tokens(logits, uniforms, mixed)
    for row, sampling in enumerate(mixed):
        alone = draw_tokens(logits[row : row + 1], uniforms[row : row + 1], [sampling])
        assert ids[row] == alone[0][0]
        # The same operations on one row or many: float32 rounding only.
        assert float(logp[row]) == pytest.approx(float(alone[1][0]), abs=1e-6)


@pytest.mark.parametrize("sampling", [params(), params(top_k=4), params(top_p=0.999), params(temperature=3.0)])
def test_a_token_of_probability_zero_is_never_drawn(sampling: SamplingParams) -> None:
    ids, logp = draw([0.0, 0.5, 0.0, 0.5, 0.0], [0.0, 0.4999999, 0.5, 0.5000001, ALMOST_ONE], sampling)
    assert set(ids) == {1, 3}
    assert logp == pytest.approx([math.log(0.5)] * 5, abs=1e-6)


def test_the_first_uniform_number_finds_the_first_token_that_can_be_drawn() -> None:
    ids, logp = draw([0.0, 0.25, 0.0, 0.75], [0.0], params())
    assert ids == [1] and logp == pytest.approx([math.log(0.25)], abs=1e-6)


def test_the_last_uniform_number_finds_a_token_where_the_sum_ends_below_one() -> None:
    # exp(log-softmax) of 50,000 equal logits sums to less than 1 in float32; then come tokens that cannot be drawn.
    logits = torch.cat([torch.zeros(1, 50_000), torch.full((1, 10), float("-inf"))], dim=1)
    ids, logp = draw_tokens(logits, torch.tensor([ALMOST_ONE], dtype=torch.float64), [params()])
    assert ids.tolist() == [49_999]
    assert logp.tolist() == pytest.approx([-math.log(50_000)], abs=1e-5)


def test_bfloat16_logits_are_drawn_in_float32() -> None:
    logits = torch.tensor([PROBS]).log().bfloat16()
    _, logp = draw_tokens(logits, torch.tensor([0.3], dtype=torch.float64), [params()])
    assert logp.tolist() == logits.float().log_softmax(-1)[:, 1].tolist()


def test_logits_without_a_distribution_give_a_nan_log_prob() -> None:
    logits = torch.tensor([[0.0, float("nan"), 0.0], [float("-inf")] * 3, [0.0, float("inf"), 0.0], [0.0, 0.0, 0.0]])
    _, logp = draw_tokens(logits, torch.full((4,), 0.5, dtype=torch.float64), [params()] * 4)
    assert logp.isnan().tolist() == [True, True, True, False]


def test_a_longer_stream_of_a_seed_starts_with_the_shorter_and_seeds_differ() -> None:
    assert uniform_stream(2**64 - 1, 8).tolist() == uniform_stream(2**64 - 1, 20)[:8].tolist()
    assert uniform_stream(7, 8).tolist() != uniform_stream(8, 8).tolist()
    # A stream must stay the same on every machine and version: it is part of a run's reproducibility.
    assert uniform_stream(0, 2).tolist() == pytest.approx(STREAM_OF_SEED_0, abs=1e-15)
