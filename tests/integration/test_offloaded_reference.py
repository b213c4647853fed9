"""A reference policy in host memory scores as one on the device does, and is there only while it scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID

from rllib_gigpo.learners.offloading import on_device
from rllib_gigpo.learners.reference_policy import ReferencePolicy
from rllib_gigpo.rl_modules.causal_lm_rl_module import causal_lm_spec
from rllib_gigpo.rl_modules.model_directory import load_causal_lm
from tests.learner_cases import batch_of, build_learner_group, max_difference, random_rows, weights_of
from tests.tiny_models import save_tiny_model

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def test_updates_are_those_with_the_reference_on_the_device(directory: Path) -> None:
    rows = random_rows(12)
    groups = [build_learner_group(directory, kl_coeff=0.5, offload_reference=offload) for offload in (False, True)]
    before = weights_of(groups[0])
    for _ in range(2):
        for group in groups:
            group.update(batch=batch_of(rows), timesteps={})
    plain, offloaded = (weights_of(group) for group in groups)
    assert max_difference(plain, offloaded) == 0
    assert max_difference(before, plain) > 1e-3
    scores = [group._learner.compute_reference_log_probs(rows, DEFAULT_MODULE_ID) for group in groups]
    np.testing.assert_array_equal(*scores)


def test_all_of_a_network_is_on_the_device_within_the_block_and_as_it_was_behind_it(directory: Path) -> None:
    # The meta device stands for one that a CPU has not.
    lm = load_causal_lm(directory)
    before = dict(lm.state_dict(keep_vars=True)) | dict(lm.named_buffers())
    with pytest.raises(ZeroDivisionError), on_device(lm, "meta"):
        assert {tensor.device.type for tensor in (*lm.parameters(), *lm.buffers())} == {"meta"}
        # Tied weights are one tensor there too.
        assert lm.lm_head.weight is lm.model.embed_tokens.weight
        1 / 0  # noqa: B018
    after = dict(lm.state_dict(keep_vars=True)) | dict(lm.named_buffers())
    assert before.keys() == after.keys()
    assert all(before[name] is tensor for name, tensor in after.items())


def test_the_reference_stays_in_host_memory_and_is_moved_for_scoring(directory: Path) -> None:
    module = causal_lm_spec(str(directory)).build()

    def places(**settings: Any) -> tuple[str, str]:
        reference = ReferencePolicy(module, torch.device("meta"), shard=None, **settings)
        (kept,) = {tensor.device.type for tensor in reference.network.parameters()}
        with reference.in_use():
            (used,) = {tensor.device.type for tensor in reference.network.parameters()}
        return kept, used

    assert places(offload=True) == ("cpu", "meta")
    assert places(offload=False) == ("meta", "meta")
