"""Policy losses against hand-computed numbers, gradients, and the sums that micro-batches must keep."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from rllib_gigpo.learners.losses import (
    kl_penalty,
    loss_denominator,
    policy_loss,
    token_entropy,
    token_log_probs,
    truncated_importance_weights,
    value_loss,
)

pytestmark = pytest.mark.unit

AGGREGATIONS = ["token-mean", "sequence-mean-token-mean", "sequence-mean-token-sum", "sequence-mean-token-sum-norm"]


def loss_of_ratios(ratios, advantages, lengths, **options):
    """`policy_loss` of tokens with these ratios; the leaf that the gradient arrives at is `.logp`."""
    logp = torch.tensor(ratios).log().requires_grad_()
    defaults = {"clip_low": 0.2, "clip_high": 0.28, "ratio": "token", "aggregation": "token-mean"}
    loss = policy_loss(
        logp,
        torch.zeros(len(ratios)),
        torch.tensor(advantages),
        torch.tensor(lengths, dtype=torch.int64),
        **{**defaults, **options},
    )
    loss.loss_sum.backward()
    return loss, logp.grad


def random_rows(seed, rows=7):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 6, (rows,), generator=generator)
    tokens = int(lengths.sum())
    logp = -torch.rand(tokens, generator=generator) * 2
    old_logp = logp + 0.4 * torch.randn(tokens, generator=generator)
    weights = 2 * torch.rand(tokens, generator=generator)
    return logp, old_logp, torch.randn(rows, generator=generator), lengths, weights


def test_clipping_by_hand():
    """Losses −min(ρA, clip(ρ)A); a clipped token passes no gradient, and dloss/dlogp is −Aρ elsewhere."""
    loss, gradient = loss_of_ratios([1.0, 1.2, 1.5, 0.5, 1.0, 1.5, 0.5], [2.0, -2.0], [4, 3])
    expected = [-2.0, -2.4, -2 * 1.28, -1.0, 2.0, 3.0, 2 * 0.8]
    assert loss.loss_sum.item() == pytest.approx(sum(expected), abs=1e-5)
    assert_close(gradient, torch.tensor([-2.0, -2.4, 0.0, -1.0, 2.0, 3.0, 0.0]))
    assert (loss.clipped_high.item(), loss.clipped_low.item(), loss.dual_clipped.item()) == (1, 1, 0)
    assert loss.tokens.item() == 7
    assert loss.ratio_sum.item() == pytest.approx(7.2, abs=1e-5)
    assert loss.ratio_max.item() == pytest.approx(1.5, abs=1e-6)


def test_only_the_loss_carries_a_gradient():
    logp, old_logp, advantages, lengths, _ = random_rows(0)
    options = {"clip_low": 0.2, "clip_high": 0.2, "ratio": "token", "aggregation": "token-mean"}
    loss = policy_loss(logp.requires_grad_(), old_logp, advantages, lengths, **options)
    assert [name for name, value in loss._asdict().items() if value.requires_grad] == ["loss_sum"]


def test_dual_clip_bounds_the_loss_of_negative_advantages_only():
    loss, gradient = loss_of_ratios([5.0, 2.0, 5.0, 1.5], [-1.0, 1.0], [2, 2], dual_clip=3.0, clip_high=9.0)
    assert loss.loss_sum.item() == pytest.approx(3.0 + 2.0 - 5.0 - 1.5, abs=1e-5)
    assert_close(gradient, torch.tensor([0.0, 2.0, -5.0, -1.5]))
    assert loss.dual_clipped.item() == 1


def test_at_ratio_one_the_gradient_is_the_policy_gradient():
    logp, _, advantages, lengths, _ = random_rows(1)
    logp.requires_grad_()
    for ratio in ("token", "sequence"):
        options = {"clip_low": 0.2, "clip_high": 0.2, "ratio": ratio, "aggregation": "token-mean"}
        loss = policy_loss(logp, logp.detach(), advantages, lengths, **options).loss_sum
        (gradient,) = torch.autograd.grad(loss, logp)
        assert_close(gradient, -advantages.repeat_interleave(lengths))


def test_sequence_ratio_by_hand():
    """Row 0: log-ratios log 4 and 0, mean log 2. Row 1: log 1.1. The clip at 1.28 holds row 0 as a whole."""
    loss, gradient = loss_of_ratios([4.0, 1.0, 1.1], [1.0, 1.0], [2, 1], ratio="sequence")
    assert loss.loss_sum.item() == pytest.approx(-1.28 * 2 - 1.1, abs=1e-5)
    assert_close(gradient, torch.tensor([0.0, 0.0, -1.1]))
    assert loss.clipped_high.item() == 2
    # With A < 0 nothing is clipped there: both tokens count the ratio 2, each owns half of its exponent.
    loss, gradient = loss_of_ratios([4.0, 1.0, 1.1], [-1.0, 1.0], [2, 1], ratio="sequence")
    assert loss.loss_sum.item() == pytest.approx(2 + 2 - 1.1, abs=1e-5)
    assert_close(gradient, torch.tensor([2.0, 2.0, -1.1]))


def test_gspo_gradient_of_a_response_is_its_length_normalised_one():
    _, gradient = loss_of_ratios(
        [4.0, 1.0, 1.1], [-1.0, 1.0], [2, 1], ratio="sequence", aggregation="sequence-mean-token-mean"
    )
    assert_close(gradient, torch.tensor([1.0, 1.0, -1.1]))


@pytest.mark.parametrize(
    ("aggregation", "loss_sum", "denominator"),
    [
        ("token-mean", -3 * 1.0 - 1 * 3.0, 4),
        ("sequence-mean-token-mean", -1.0 - 3.0, 2),
        ("sequence-mean-token-sum", -3 * 1.0 - 1 * 3.0, 2),
        ("sequence-mean-token-sum-norm", -3 * 1.0 - 1 * 3.0, 2 * 10),
    ],
)
def test_aggregations_by_hand(aggregation, loss_sum, denominator):
    """Ratios 1, advantages 1 over three tokens and 3 over one."""
    loss, _ = loss_of_ratios([1.0] * 4, [1.0, 3.0], [3, 1], aggregation=aggregation)
    assert loss.loss_sum.item() == pytest.approx(loss_sum, abs=1e-6)
    divisor = loss_denominator(torch.tensor([3, 1]), aggregation, max_response_tokens=10)
    assert divisor.dtype == torch.int64
    assert divisor.item() == denominator


@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 10_000),
    st.integers(1, 6),
    st.sampled_from(AGGREGATIONS),
    st.sampled_from(["token", "sequence"]),
    st.sampled_from([None, 3.0]),
)
def test_micro_batches_add_up_to_the_whole(seed, cut, aggregation, ratio, dual_clip):
    logp, old_logp, advantages, lengths, weights = random_rows(seed)
    options = {"clip_low": 0.2, "clip_high": 0.28, "ratio": ratio, "aggregation": aggregation, "dual_clip": dual_clip}

    def part(rows, tokens):
        leaf = logp[tokens].clone().requires_grad_()
        loss = policy_loss(
            leaf, old_logp[tokens], advantages[rows], lengths[rows], importance_weights=weights[tokens], **options
        )
        loss.loss_sum.backward()
        return loss, leaf.grad

    whole, whole_gradient = part(slice(None), slice(None))
    boundary = int(lengths[:cut].sum())
    first, first_gradient = part(slice(None, cut), slice(None, boundary))
    second, second_gradient = part(slice(cut, None), slice(boundary, None))
    assert_close(torch.cat([first_gradient, second_gradient]), whole_gradient)
    for name, total in whole._asdict().items():
        one, other = getattr(first, name), getattr(second, name)
        combined = torch.maximum(one, other) if name == "ratio_max" else one + other
        assert_close(combined, total, rtol=1e-5, atol=1e-5, msg=name)


@pytest.mark.parametrize("ratio", ["token", "sequence"])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_a_micro_batch_without_rows_still_has_a_backward(ratio, aggregation):
    """A learner whose shard is empty must take part in the all-reduce of the gradients."""
    loss, gradient = loss_of_ratios(
        [], [], torch.zeros(0, dtype=torch.int64).tolist() or [], ratio=ratio, aggregation=aggregation
    )
    assert loss.loss_sum.item() == 0
    assert gradient.shape == (0,)
    assert loss.tokens.item() == loss.ratio_max.item() == 0


def test_approximate_kl_by_hand():
    loss, _ = loss_of_ratios([2.0, 0.5, 1.0], [1.0], [3])
    assert loss.approx_kl_sum.item() == pytest.approx((2 - 1 - math.log(2)) + (0.5 - 1 + math.log(2)), abs=1e-6)


@pytest.mark.parametrize(
    ("estimator", "values", "gradients"),
    [
        # The policy gives log 2 more, log 2 less, the same as the reference.
        ("k1", [math.log(2), -math.log(2), 0.0], [math.log(2), -math.log(2), 0.0]),
        ("k2", [math.log(2) ** 2 / 2, math.log(2) ** 2 / 2, 0.0], [math.log(2), -math.log(2), 0.0]),
        ("k3", [0.5 - 1 + math.log(2), 2 - 1 - math.log(2), 0.0], [0.5, -1.0, 0.0]),
    ],
)
def test_kl_penalties_by_hand(estimator, values, gradients):
    logp = torch.tensor([math.log(0.8), math.log(0.1), -1.0], requires_grad=True)
    reference_logp = torch.tensor([math.log(0.4), math.log(0.2), -1.0], requires_grad=True)
    penalty = kl_penalty(logp, reference_logp, estimator)
    assert_close(penalty, torch.tensor(values))
    penalty.sum().backward()
    assert_close(logp.grad, torch.tensor(gradients))
    assert reference_logp.grad is None


@pytest.mark.parametrize(
    ("estimator", "value", "gradient_of"),
    [("k1", "forward", "forward"), ("k2", None, "forward"), ("k3", "forward", "reverse")],
)
def test_expectations_of_kl_penalties_over_all_tokens(estimator, value, gradient_of):
    """In expectation over the policy: k1 and k3 are KL(π ‖ ref); gradients are those of it, for k3 of KL(ref ‖ π)."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, generator=generator, dtype=torch.float64).requires_grad_()
    reference = torch.randn(6, generator=generator, dtype=torch.float64).log_softmax(-1)
    logp = logits.log_softmax(-1)
    p = logp.exp().detach()
    kl = {
        "forward": (logp.exp() * (logp - reference)).sum(),
        "reverse": (reference.exp() * (reference - logp)).sum(),
    }
    expected_gradient = torch.autograd.grad(kl[gradient_of], logits, retain_graph=True)[0]
    expectation = (p * kl_penalty(logp, reference, estimator)).sum()
    if value is not None:
        assert_close(expectation, kl[value])
    assert_close(torch.autograd.grad(expectation, logits)[0], expected_gradient)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_a_reference_that_forbids_a_sampled_token_is_not_hidden(estimator):
    logp = torch.tensor([-1.0], requires_grad=True)
    assert not torch.isfinite(kl_penalty(logp, torch.tensor([-math.inf]), estimator)).all()


def test_an_unknown_kl_estimator_is_named():
    with pytest.raises(ValueError, match="kl_estimator is 'k4'"):
        kl_penalty(torch.zeros(1), torch.zeros(1), "k4")


def test_importance_weights_multiply_each_tokens_loss():
    weights = torch.tensor([0.5, 2.0, 1.0], requires_grad=True)
    loss, gradient = loss_of_ratios([1.0, 1.0, 1.0], [1.0, -1.0], [2, 1], importance_weights=weights)
    assert loss.loss_sum.item() == pytest.approx(-0.5 - 2 + 1, abs=1e-6)
    assert_close(gradient, torch.tensor([-0.5, -2.0, 1.0]))
    assert weights.grad is None


def test_truncated_importance_weights_by_hand():
    old_logp = torch.tensor([0.0, 0.0, 0.0, 0.0], requires_grad=True)
    rollout_logp = torch.tensor([0.0, -math.log(1.5), -math.log(9.0), -200.0])
    weights = truncated_importance_weights(old_logp, rollout_logp, cap=2.0)
    assert_close(weights, torch.tensor([1.0, 1.5, 2.0, 2.0]))
    assert not weights.requires_grad


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("ratio", ["token", "sequence"])
def test_a_log_probability_that_is_not_finite_is_not_hidden_by_the_clip(bad, advantage, ratio):
    options = {"clip_low": 0.2, "clip_high": 0.2, "ratio": ratio, "aggregation": "token-mean", "dual_clip": 3.0}
    good, advantages, lengths = torch.zeros(2), torch.tensor([advantage]), torch.tensor([2])
    for logp, old_logp in ((torch.tensor([0.0, bad]), good), (good, torch.tensor([0.0, bad]))):
        assert policy_loss(logp, old_logp, advantages, lengths, **options).loss_sum.isnan()
        assert truncated_importance_weights(logp, old_logp, cap=2.0).isnan().tolist() == [False, True]


def test_token_advantages_take_the_place_of_those_of_rows():
    """Ratios 1: the gradient is −A of each token, divided by the row's length where the aggregation says so."""
    advantages = torch.tensor([1.0, -2.0, 0.5])
    for aggregation, expected in (
        ("token-mean", [-1.0, 2.0, -0.5]),
        ("sequence-mean-token-mean", [-0.5, 1.0, -0.5]),
    ):
        loss, gradient = loss_of_ratios(
            [1.0] * 3, [math.nan] * 2, [2, 1], aggregation=aggregation, token_advantages=advantages
        )
        assert_close(gradient, torch.tensor(expected))
        assert loss.loss_sum.item() == pytest.approx(sum(expected), abs=1e-6)


def test_equal_token_advantages_are_those_of_their_row():
    logp, old_logp, advantages, lengths, _ = random_rows(3)
    options = {"clip_low": 0.2, "clip_high": 0.28, "ratio": "token", "aggregation": "token-mean", "dual_clip": 3.0}
    of_rows = policy_loss(logp, old_logp, advantages, lengths, **options)
    of_tokens = policy_loss(
        logp, old_logp, 0 * advantages, lengths, token_advantages=advantages.repeat_interleave(lengths), **options
    )
    assert_close(of_tokens, of_rows)


def test_value_loss_by_hand():
    """Targets 2, 2, 2 and 0, old values 0: the first two moved past ±0.5 towards the target and pass no gradient, the
    third has not moved, the last moved the wrong way."""
    values = torch.tensor([1.0, 3.0, 0.0, 3.0], requires_grad=True)
    targets = torch.tensor([2.0, 2.0, 2.0, 0.0], requires_grad=True)
    old_values = torch.zeros(4, requires_grad=True)
    loss = value_loss(values, targets, old_values, value_clip=0.5)
    assert loss.loss_sum.item() == pytest.approx(1.5**2 + 1.5**2 + 4 + 9, abs=1e-6)
    assert loss.clipped.item() == 2
    loss.loss_sum.backward()
    assert_close(values.grad, torch.tensor([0.0, 0.0, -4.0, 6.0]))
    assert targets.grad is None and old_values.grad is None

    plain = value_loss(values, targets, old_values, value_clip=None)
    assert plain.loss_sum.item() == pytest.approx(1 + 1 + 4 + 9, abs=1e-6)
    assert plain.clipped.item() == 0


def test_a_value_loss_that_cannot_be_is_named():
    one, two = torch.zeros(1), torch.zeros(2)
    with pytest.raises(ValueError, match="value_clip is 0"):
        value_loss(one, one, one, value_clip=0)
    with pytest.raises(ValueError, match=r"targets has shape \(2,\)"):
        value_loss(one, two, one, value_clip=None)
    with pytest.raises(ValueError, match=r"old_values has shape \(2,\)"):
        value_loss(one, one, two, value_clip=None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"token_advantages": torch.ones(2)}, r"token_advantages has shape \(2,\); it must be \(3,\)"),
        ({"clip_low": -0.1}, "clip_low is -0.1"),
        ({"clip_high": math.nan}, "clip_high is nan"),
        ({"ratio": "row"}, "ratio is 'row'"),
        ({"aggregation": "mean"}, "loss_aggregation is 'mean'"),
        ({"dual_clip": 1.0}, "dual_clip is 1.0"),
        ({"importance_weights": torch.ones(2)}, r"importance_weights has shape \(2,\); it must be \(3,\)"),
    ],
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        loss_of_ratios([1.0] * 3, [1.0, 1.0], [2, 1], **options)


def test_shapes_that_do_not_fit_are_named():
    options = {"clip_low": 0.2, "clip_high": 0.2, "ratio": "token", "aggregation": "token-mean"}
    three, two = torch.zeros(3), torch.zeros(2)
    with pytest.raises(ValueError, match="response_lengths sum to 4"):
        policy_loss(three, three, two, torch.tensor([2, 2]), **options)
    with pytest.raises(ValueError, match="old_logp has shape"):
        policy_loss(three, two, two, torch.tensor([2, 1]), **options)
    # One number per token, as padded implementations take them, would otherwise be read as one per row.
    with pytest.raises(ValueError, match="advantages has shape"):
        policy_loss(three, three, three, torch.tensor([2, 1]), **options)
    with pytest.raises(ValueError, match="max_response_tokens is None"):
        loss_denominator(torch.tensor([2]), "sequence-mean-token-sum-norm")
    with pytest.raises(ValueError, match="loss_aggregation is 'sum'"):
        loss_denominator(torch.tensor([2]), "sum")
    with pytest.raises(ValueError, match="cap is 0"):
        truncated_importance_weights(three, three, cap=0)
    with pytest.raises(ValueError, match="rollout_logp has shape"):
        truncated_importance_weights(three, two, cap=2.0)


def test_token_log_probs_by_hand():
    logits = torch.tensor([[0.0, math.log(3.0)], [2 * math.log(3.0), 0.0]])
    assert_close(token_log_probs(logits, torch.tensor([1, 0]), 1.0), torch.tensor([0.75, 0.9]).log())
    assert_close(token_log_probs(logits, torch.tensor([0, 1]), 2.0)[1], torch.tensor(0.25).log())


def test_token_log_probs_of_low_precision_logits_are_float32():
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(0)).bfloat16()
    ids = torch.arange(4)
    logp = token_log_probs(logits, ids, 0.7)
    assert logp.dtype == torch.float32
    exact = (logits.double() / 0.7).log_softmax(-1)[torch.arange(4), ids]
    assert_close(logp.double(), exact, rtol=0, atol=1e-6)


def test_token_entropy_by_hand_and_over_chunks(monkeypatch):
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, -math.inf, -math.inf], [500.0, 0.0, 0.0, 0.0]])
    expected = torch.tensor([math.log(4), math.log(2), 0.0])
    assert_close(token_entropy(logits), expected)
    monkeypatch.setattr("rllib_gigpo.learners.losses._ENTROPY_CHUNK_ON_CPU", 5)
    assert_close(token_entropy(logits), expected)
    assert token_entropy(logits[:0]).shape == (0,)


def test_token_entropy_has_the_right_gradient():
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float32).requires_grad_()
    token_entropy(logits, temperature=0.5).sum().backward()
    p = (logits.detach() / 0.5).softmax(-1)
    entropy = -(p * p.log()).sum(-1, keepdim=True)
    assert_close(logits.grad, -p * (p.log() + entropy) / 0.5)


@pytest.mark.parametrize(
    "function",
    [lambda t: token_entropy(torch.zeros(1, 2), t), lambda t: token_log_probs(torch.zeros(1, 2), torch.tensor([0]), t)],
)
def test_temperature_zero_is_named(function):
    with pytest.raises(ValueError, match="temperature is 0"):
        function(0)
