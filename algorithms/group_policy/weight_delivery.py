"""Weight delivery: the learners' weights go to every env runner, and every one of them proves what it serves."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner_group import LearnerGroup

from rllib_gigpo.env_runners.runner_answers import RUNNER_DIED, ServedWeights
from rllib_gigpo.env_runners.runner_group import RunnerGroup
from rllib_gigpo.failures import Failure
from rllib_gigpo.inference.weights_probe import Probe, probe_gap, probe_tolerance
from rllib_gigpo.learners.learner_progress import LearnerStalled
from rllib_gigpo.learners.sharded_learner_group import ShardedLearnerGroup

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WeightDelivery:
    """A delivery that every runner has confirmed.

    Attributes:
        version: That every runner now serves: the number of updates that the weights have seen.
        seconds: Wall-clock seconds until the last runner had answered.
        num_bytes: Size of the weights of all modules.
        probe_gap_max: Largest gap, over runners and modules, between their log-probs of the probe and the learner's.
    """

    version: int
    seconds: float
    num_bytes: int
    probe_gap_max: float

    def metrics(self) -> dict[str, float]:
        """What is logged under "weight_delivery"."""
        return {
            "seconds": self.seconds,
            "bytes": float(self.num_bytes),
            "weights_probe_gap_max": self.probe_gap_max,
        }


@dataclass(frozen=True)
class WeightParcel:
    """The first learner's weights of a module.

    Attributes:
        weights: Arrays by name, valid until the learner's next update, or a reference to copies of them.
        version: Number of updates they have seen.
        num_bytes: Their size.
        probe: What tells them from others.
    """

    weights: Any
    version: int
    num_bytes: int
    probe: Probe


def deliver_weights(
    learner_group: LearnerGroup, runners: RunnerGroup, *, model_dtypes: Mapping[str, str], timeout_s: float
) -> WeightDelivery:
    """Gives the learners' weights to every runner that is alive, if any is, and waits for all of them.

    RLlib's `sync_weights` would send them and not wait; it drops a push while an earlier one is pending, and failures
    end in a log. Where runners and learners are processes of their own, the weights go from one to the others through
    the object store, past the driver, and while runners take them the learner makes its part of their proof.

    Args:
        learner_group: All learners hold the same weights; the first one gives them.
        runners: One that dies meanwhile, or whose infrastructure fails, is restarted and gets them then.
        model_dtypes: By module, all of which are delivered, one after another; sets the tolerance of the probe.
        timeout_s: How long to wait for the answers.

    Raises:
        RuntimeError: A runner that is alive fails, does not answer in time, or serves another version or other weights.
            The message names the runner, both versions and the gap.
    """
    started = time.perf_counter()
    parcels, gaps = [], []
    for module_id, model_dtype in model_dtypes.items():
        with _gathered(learner_group):
            parcel = take_weights(learner_group, by_reference=not runners.is_local, module_id=module_id)
            probe_logp, answers = _proofs(parcel, module_id, learner_group, runners, timeout_s=timeout_s)
        gap, problems = _check(answers, parcel.version, probe_logp, probe_tolerance(model_dtype, probe_logp), runners)
        if problems:
            of_module = "" if module_id == DEFAULT_MODULE_ID else f" of module {module_id!r}"
            raise RuntimeError(f"weights version {parcel.version}{of_module} was delivered, but " + "; ".join(problems))
        parcels.append(parcel)
        gaps.append(gap)
    num_bytes = sum(parcel.num_bytes for parcel in parcels)
    return WeightDelivery(parcels[0].version, time.perf_counter() - started, num_bytes, max(gaps))


def _proofs(
    parcel: WeightParcel, module_id: str, learner_group: LearnerGroup, runners: RunnerGroup, *, timeout_s: float
) -> tuple[np.ndarray, dict[int, Any]]:
    """The learner's log-probs of the probe, and by its id what each runner answers to the weights: a `ServedWeights`, a
    `Failure`, or, where it gives no answer, a text that says so."""
    arguments = {"module_id": module_id, "weights": parcel.weights, "version": parcel.version, "probe": parcel.probe}
    runner_ids = runners.known_alive()

    def deliver() -> dict[int, Any]:
        answers = runners.call("deliver", dict.fromkeys(runner_ids, arguments), timeout_s=timeout_s)
        return {id_: answers.get(id_, f"did not answer within {timeout_s:g} s") for id_ in runner_ids}

    if learner_group.is_local:  # it would only share this process's cores with a runner in it
        return prove_weights(learner_group, module_id=module_id), deliver()
    with ThreadPoolExecutor(max_workers=1) as beside:
        proof = beside.submit(prove_weights, learner_group, module_id=module_id)
        answers = deliver()
    return proof.result(), answers


def _check(
    answers: dict[int, Any], version: int, probe_logp: np.ndarray, tolerance: float, runners: RunnerGroup
) -> tuple[float, list[str]]:
    """The largest gap, and what is wrong with the answers of runners that are alive; the others are restarted."""
    gaps, problems = [0.0], []
    for runner_id, answer in answers.items():
        if isinstance(answer, ServedWeights):
            gap = probe_gap(probe_logp, answer.probe_logp)
            gaps.append(gap)
            # NaN compares False, so this finds it as well.
            if answer.version != version or not gap <= tolerance:
                problems.append(
                    f"env runner {runner_id} serves version {answer.version} with a probe gap of {gap:.3g} "
                    f"(tolerance {tolerance:.3g})"
                )
        elif isinstance(answer, Failure) and answer.is_infrastructure:
            logger.warning("env runner %d was lost while weights were delivered: %s", runner_id, answer.details)
            if answer.cause != RUNNER_DIED:
                runners.restart(runner_id)  # it has other weights, or an engine that is gone
        elif isinstance(answer, Failure):
            problems.append(f"env runner {runner_id} failed: {answer.details}")
        else:
            problems.append(f"env runner {runner_id} {answer}")
    return max(gaps), problems


def take_weights(
    learner_group: LearnerGroup, *, by_reference: bool, module_id: str = DEFAULT_MODULE_ID
) -> WeightParcel:
    """The first learner's weights of a module; by reference they stay in its node's object store.

    Raises:
        RuntimeError: That learner has failed.
        LearnerStalled: It does not give them within the learner group's learner_stall_timeout_s; ends all learners.
    """

    def take(learner: Any) -> WeightParcel:
        module = learner.module[module_id].unwrapped()
        # Not copied: the object store and the runner's model do that, before the next update changes them.
        weights = module.network_weights(copy=False)
        return WeightParcel(
            weights=ray.put(weights) if by_reference else weights,
            version=learner._weights_seq_no,
            num_bytes=sum(array.nbytes for array in weights.values()),
            probe=module.probe(),
        )

    with _gathered(learner_group):
        return _of_first_learner(learner_group, take, "its weights")


def prove_weights(learner_group: LearnerGroup, *, module_id: str = DEFAULT_MODULE_ID) -> np.ndarray:
    """The first learner's log-probs, float32[n - 1], of the n tokens of a module's probe behind the first. Raises as
    `take_weights`."""
    with _gathered(learner_group):
        return _of_first_learner(learner_group, lambda learner: learner.probe(module_id)[1], "the proof of its weights")


def _gathered(learner_group: LearnerGroup) -> AbstractContextManager[None]:
    """Within it the first of several learners that share the models can speak for all."""
    is_sharded = isinstance(learner_group, ShardedLearnerGroup)
    return learner_group.gathered(with_optimizers=False) if is_sharded else nullcontext()


def _of_first_learner(learner_group: LearnerGroup, call: Callable[[Any], Any], answer: str) -> Any:
    timeout_s = learner_group.config.learner_stall_timeout_s
    for result in learner_group.foreach_learner(call, remote_actor_ids=[0], timeout_seconds=timeout_s):
        if result.ok:
            return result.get()
        raise RuntimeError(f"the first learner could not give {answer}: {result.get()}") from result.get()
    if learner_group._worker_manager.is_actor_healthy(0):
        for learner in learner_group._workers:  # as in `call_remote_learners`: nobody is to wait for it any more
            ray.kill(learner)
        raise LearnerStalled(f"learner 0 has not given {answer} within {timeout_s:g} s (learner_stall_timeout_s)")
    raise RuntimeError("the first learner has failed before, and gives no weights; its error is logged above")
