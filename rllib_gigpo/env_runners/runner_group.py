"""All env runners of an Algorithm, local or remote: rolls plans out over those that are alive."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import ray
from ray._private.state import actors
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from rllib_gigpo.env_runners import endings
from rllib_gigpo.env_runners.group_rollout import DROPPED_GROUPS, FAILURE_KINDS
from rllib_gigpo.env_runners.rollout_metrics import ROLLOUT_FAILURE_CAUSES, ROLLOUT_FAILURES
from rllib_gigpo.env_runners.rollout_plan import RolloutPlan
from rllib_gigpo.env_runners.runner_answers import RUNNER_DIED, Rollout, failed_call
from rllib_gigpo.failures import Failure
from rllib_gigpo.images import adopt_images

logger = logging.getLogger(__name__)

LOCAL_RUNNER = 0
_POLL_S = 0.2
# How long Ray may take to notice a death, and to find a place for the new process; how long that may take to answer.
_NOTICE_S = 10.0
_PING_S = 30.0
_PLACEMENT_S = 50.0


class RunnerGroup:
    """The env runners of an Algorithm.

    A runner that fails while it samples loses its groups, and they are counted; the others' groups are kept. RLlib
    restarts it, and the Algorithm gives it the current weights before the next iteration. RLlib's config keys
    `restart_failed_env_runners` and `ignore_env_runner_failures` hold: where both are off, any failure is raised.

    Args:
        env_runner_group: RLlib's group, with the runners' actors.
        config: The Algorithm's config.
    """

    def __init__(self, env_runner_group: EnvRunnerGroup, config: AlgorithmConfig):
        self._group = env_runner_group
        self._manager = env_runner_group._worker_manager
        self._restarts = config.restart_failed_env_runners
        self._tolerates_failures = config.restart_failed_env_runners or config.ignore_env_runner_failures
        self._answer_timeout_s = config.env_runner_restore_timeout_s
        self._restart_timeout_s = config.env_runner_health_probe_timeout_s
        self._last_failure: Failure | None = None
        self._restarts_seen = {} if self.is_local else self._restarts_of(self._manager.healthy_actor_ids())
        self._without_place: set[int] = set()  # runners that no node has room for; nobody waits for them again

    @property
    def is_local(self) -> bool:
        """Whether the only runner lives in this process."""
        return self._group.num_remote_env_runners() == 0

    def roll_out(self, plan: RolloutPlan) -> Rollout:
        """Rolls `plan` out on all runners that are alive, whole groups each.

        Raises:
            RuntimeError: No runner is alive; or every part of the plan failed, and not only because runners died; or a
                part failed and the config tolerates no failures. The message has the last cause.
        """
        if self.is_local:
            return self._group.local_env_runner.roll_out(plan=plan)
        runner_ids = self.alive()
        parts = {
            runner_id: part
            for runner_id, part in zip(runner_ids, plan.split(len(runner_ids)), strict=True)
            if part.groups
        }
        answers = self.call("roll_out", {runner_id: {"plan": part} for runner_id, part in parts.items()})
        failures = {id_: answer for id_, answer in answers.items() if isinstance(answer, Failure)}
        self._check_failures(failures, len(parts))

        rollout = Rollout.merged([answers[runner_id] for runner_id in parts if runner_id not in failures])
        for runner_id, failure in failures.items():
            rollout.counts.update(self._lose(runner_id, parts[runner_id], failure))
            rollout = replace(rollout, last_failure=failure.details)
        if plan.explore:
            # A runner may die before its groups have been learned from, in a later round of dynamic sampling.
            adopt_images(episode.get_observations(0) for episode in rollout.episodes)
        return rollout

    def sleep(self, level: int) -> None:
        """Has all engines give their GPU's memory back; see `VLLMServer.sleep`.

        Raises:
            RuntimeError: An engine cannot, or gives no answer in time; one that is gone does not count.
        """
        calls = {runner_id: {"level": level} for runner_id in self.alive()}
        answers = self.call("sleep", calls, timeout_s=self._answer_timeout_s)
        if silent := sorted(calls.keys() - answers.keys()):
            raise RuntimeError(f"the engines of env runners {silent} do not sleep after {self._answer_timeout_s:g} s")
        for runner_id, answer in answers.items():
            if isinstance(answer, Failure) and not answer.is_infrastructure:
                raise RuntimeError(f"the engine of env runner {runner_id} cannot sleep: {answer.details}")

    def kill(self) -> None:
        """Ends the processes of all runners, whatever they are doing, for good."""
        for actor in self._manager._actors.values():
            ray.kill(actor, no_restart=True)

    def known_alive(self) -> list[int]:
        """Ids of the runners that are not known to be dead, in order."""
        return [LOCAL_RUNNER] if self.is_local else sorted(self._group.healthy_env_runner_ids())

    def alive(self) -> list[int]:
        """`known_alive`.

        Raises:
            RuntimeError: There is none.
        """
        runner_ids = self.known_alive()
        if not runner_ids:
            raise RuntimeError(
                f"none of the {self._group.num_remote_env_runners()} env runners is alive; the last cause: "
                f"{self._cause()}"
            )
        return runner_ids

    def call(
        self, method: str, kwargs: Mapping[int, dict[str, Any]], *, timeout_s: float | None = None
    ) -> dict[int, Any]:
        """Calls a method of several runners at once.

        Args:
            method: Its name.
            kwargs: Its keyword arguments, by runner id.
            timeout_s: How long to wait for the answers; None for ever.

        Returns:
            What each runner answered, by runner id: its return value, or a Failure. A runner that did not answer
            in time is missing. The local runner's exceptions are raised as they are.
        """
        if self.is_local:
            return {
                id_: getattr(self._group.local_env_runner, method)(**arguments) for id_, arguments in kwargs.items()
            }
        # Without ids, RLlib's manager would call every runner.
        if not kwargs:
            return {}
        results = self._manager.foreach_actor(
            "answer",
            kwargs=[{"method": method, **arguments} for arguments in kwargs.values()],
            remote_actor_ids=list(kwargs),
            timeout_seconds=timeout_s,
        )
        answers = {result.actor_id: result.get() if result.ok else failed_call(result.get()) for result in results}
        for answer in answers.values():
            if isinstance(answer, Failure):
                self._last_failure = answer
        return answers

    def restart(self, runner_id: int) -> None:
        """Ends the process of a runner that cannot be relied on; Ray starts another one where the config says so."""
        ray.kill(self._manager._actors[runner_id], no_restart=not self._restarts)
        self._manager.set_actor_state(runner_id, healthy=False)

    def restore(self) -> list[int]:
        """Takes runners back that were restarted, and waits for those that still are, as long as the config's
        `env_runner_health_probe_timeout_s`. A runner that Ray has given up is not waited for, and one that no node has
        room for, after its own was lost, only once, and not as long; whenever it is back it is taken.

        Returns:
            Ids of the runners that are alive again, with the weights of the model directory.
        """
        start = time.monotonic()
        while (waited := time.monotonic() - start) < self._restart_timeout_s and self._any_restarting(waited):
            time.sleep(_POLL_S)
        restored = self._take_back()
        self._restarts_seen |= self._restarts_of(restored)
        self._without_place -= set(restored)
        return restored

    def _take_back(self) -> list[int]:
        """Takes back the runners whose process answers. RLlib's own way to do so would ask all that failed, and wait
        for one that has no process as long as for one that is being set up."""
        present = [runner_id for runner_id in self._dead() if self._actor_state(runner_id)["State"] == "ALIVE"]
        if not present:  # without ids, RLlib's manager would call every runner
            return []
        answers = self._manager.foreach_actor(
            "ping", remote_actor_ids=present, healthy_only=False, timeout_seconds=_PING_S, mark_healthy=True
        )
        return sorted(answer.actor_id for answer in answers if answer.ok)

    def _dead(self) -> list[int]:
        return sorted(set(self._manager.actor_ids()) - set(self._manager.healthy_actor_ids()))

    def _any_restarting(self, waited_s: float) -> bool:
        """Whether a runner that failed is still on its way back, and worth waiting for."""
        return any([self._is_restarting(runner_id, waited_s) for runner_id in self._dead()])

    def _is_restarting(self, runner_id: int, waited_s: float) -> bool:
        """Whether a runner is neither alive in a new process, nor given up, nor for long without a node."""
        actor = self._actor_state(runner_id)
        if actor["State"] == "ALIVE":
            # Ray may need a moment to notice a death: until then the actor counts as alive, in its old process.
            return actor["NumRestarts"] == self._restarts_seen.get(runner_id) and waited_s < _NOTICE_S
        if actor["State"] == "DEAD" or (runner_id in self._without_place and self.known_alive()):
            return False
        # The port is that of the process. The node is no sign: it is the one that Ray asks for a place, full or not.
        if actor["Address"]["Port"] == 0 and waited_s >= _PLACEMENT_S:
            logger.warning(
                "no node has had a place for env runner %d for %g s: the run goes on without it until one has",
                runner_id,
                _PLACEMENT_S,
            )
            self._without_place.add(runner_id)
            return False
        return True

    def _restarts_of(self, runner_ids: list[int]) -> dict[int, int]:
        """How often each runner has been restarted so far."""
        return {runner_id: self._actor_state(runner_id)["NumRestarts"] for runner_id in runner_ids}

    def _actor_state(self, runner_id: int) -> dict[str, Any]:
        """Ray's record of the runner's actor. A call would not tell: it fails at once, for one that is being restarted
        as for one that is dead."""
        return actors(self._manager._actors[runner_id]._actor_id.hex())

    def check_started(self) -> None:
        """Raises RuntimeError, with the cause, where a runner's process could not be set up."""
        if not self.is_local and self._group.num_healthy_env_runners() < self._group.num_remote_env_runners():
            raise RuntimeError(
                f"{self._group.num_remote_env_runners() - self._group.num_healthy_env_runners()} of "
                f"{self._group.num_remote_env_runners()} env runners did not start; the cause: {self._cause()}"
            )

    def _check_failures(self, failures: Mapping[int, Failure], num_parts: int) -> None:
        if not failures:
            return
        last = list(failures.values())[-1]
        if not self._tolerates_failures:
            raise RuntimeError(f"env runners {sorted(failures)} failed while sampling; the last cause: {last.details}")
        of_data = [failure for failure in failures.values() if not failure.is_infrastructure]
        # What every runner raises alike would come again in every iteration.
        if len(failures) == num_parts and of_data:
            raise RuntimeError(
                f"all {num_parts} env runners that had groups to roll out failed; the last cause: {of_data[-1].details}"
            )

    def _lose(self, runner_id: int, part: RolloutPlan, failure: Failure) -> Counter[str]:
        """Counts the groups of a runner that failed, and has the runner restarted."""
        logger.warning(
            "env runner %d failed while sampling (%s: %s); its groups %s are lost: %s",
            runner_id,
            failure.kind,
            failure.cause,
            [group.group_id for group in part.groups],
            failure.details,
        )
        # What a failed rollout left of an engine or of environments is not known: as RLlib does, start afresh.
        if self._restarts and failure.cause != RUNNER_DIED:
            self.restart(runner_id)
        members = len(part.groups) * part.group_size
        return Counter(
            {
                ROLLOUT_FAILURES: len(part.groups),
                DROPPED_GROUPS: len(part.groups),
                f"endings/{endings.ROLLOUT_FAILURE}": members,
                f"{ROLLOUT_FAILURE_CAUSES}/{failure.cause}": members,
                f"{FAILURE_KINDS}/{failure.kind}": members,
            }
        )

    def _cause(self) -> str:
        """Why runners are not alive: the last failure that was seen, or what Ray answers for a dead one."""
        if self._last_failure is not None:
            return self._last_failure.details
        answers = self._manager.foreach_actor("ping", healthy_only=False, timeout_seconds=5)
        return next((str(answer.get()) for answer in answers if not answer.ok), "unknown: none answers")
