"""GroupRollout on the real engine, with environments that misbehave."""

import asyncio
import string
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rllib_gigpo.algorithms.gigpo.gigpo import GiGPOConfig
from rllib_gigpo.columns import ENDING, GROUP_ID, INVALID_REASON, IS_ACTION_VALID, MEMBER, PROMPT_IDS, RESPONSE_IDS
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.env_runners.environment_pool import InlinePool
from rllib_gigpo.env_runners.group_rollout import GroupRollout
from rllib_gigpo.env_runners.rollout_plan import GroupPlan, RolloutPlan, TrajectoryBudget
from rllib_gigpo.inference.free_clients import FreeClients
from rllib_gigpo.inference.hf_engine import HFEngine
from rllib_gigpo.inference.protocol import Generation, GenerationRequest, SamplingParams
from rllib_gigpo.rl_modules.causal_lm_rl_module import CausalLMRLModule, causal_lm_spec

pytestmark = pytest.mark.integration


class Countdown(gym.Env):
    """Ends after `steps` steps; `misbehave(env, method)` may raise or answer something else."""

    def __init__(self, steps=3, misbehave=None, number=0, observation="Numbers: 10 2. Formula: empty"):
        self.observation_space = self.action_space = spaces.Text(1000, min_length=0, charset=string.printable)
        self.steps, self.misbehave, self.number, self.observation = steps, misbehave, number, observation
        self.closed = False

    def reset(self, *, seed=None, options=None):
        self.t, self.task = 0, options["task"]
        answer = self.misbehave(self, "reset") if self.misbehave else None
        return answer or (self.observation, {})

    def step(self, action):
        self.t += 1
        answer = self.misbehave(self, "step") if self.misbehave else None
        return answer or (self.observation, 1.0, self.t >= self.steps, False, {"won": self.t >= self.steps})

    def close(self):
        self.closed = True


@pytest.fixture(scope="module")
def module() -> CausalLMRLModule:
    return causal_lm_spec(str(embedded_model_path("EZPoints"))).build()


class FreeEngine:
    """The hf engine without its gate: each request alone, as it comes, after the given number of turns of the loop."""

    in_lock_step = False

    def __init__(self, module, turns=lambda request: 1):
        self._engine = HFEngine(module.lm, module.tokenizer)
        self._clients = FreeClients(self._sample)
        self._turns = turns
        self.asked: list[tuple[int, ...]] = []

    def client(self):
        return self._clients.client()

    def abort(self):
        self._clients.close_all()

    def close(self):
        pass

    async def _sample(self, request: GenerationRequest) -> Generation:
        self.asked.append(request.order)
        for _ in range(self._turns(request)):
            await asyncio.sleep(0)
        return self._engine.sample([request])[0]


def rollout_of(module, create, *, num_envs=16, max_prompt_tokens=160, engine=None) -> GroupRollout:
    config = GiGPOConfig().environment("EZPoints").generation(max_prompt_tokens=max_prompt_tokens)
    pool = InlinePool(create, num_envs)
    return GroupRollout(
        pool=pool,
        engine=engine or HFEngine(module.lm, module.tokenizer),
        rl_module=module,
        env_to_module=config.build_env_to_module_connector(env=pool),
        module_to_env=config.build_module_to_env_connector(env=pool),
    )


def plan_of(num_groups, *, group_size=4, min_group_size=2, max_response_tokens=24, **budget) -> RolloutPlan:
    return RolloutPlan(
        tuple(GroupPlan(i, task=i, env_seed=i, sampling_seed=100 + i) for i in range(num_groups)),
        group_size=group_size,
        min_group_size=min_group_size,
        sampling=SamplingParams(max_response_tokens=max_response_tokens),
        budget=TrajectoryBudget(**budget),
    )


def anchored(env) -> tuple:
    return env.observation, {"anchor_state": "start"}


def numbered(**kwargs):
    """Creates environments that know their number: 0 is the first one that the pool made."""
    made = []

    def create():
        made.append(Countdown(number=len(made), **kwargs))
        return made[-1]

    return create, made


def test_members_come_back_side_by_side_in_the_order_of_the_plan(module):
    create, _ = numbered()
    rollout = rollout_of(module, create)
    episodes = rollout.run(plan_of(3))
    assert [(e.get_infos(0)[GROUP_ID], e.get_infos(0)[MEMBER]) for e in episodes] == [
        (group, member) for group in range(3) for member in range(4)
    ]
    assert all(len(e) == 3 and e.is_terminated and e.get_infos(-1)[ENDING] == "won" for e in episodes)
    assert rollout.take_counts()["endings/won"] == 12
    assert not rollout.take_counts()


def test_a_small_pool_rolls_out_the_same_tokens_group_after_group(module):
    create, made = numbered()
    wide = rollout_of(module, numbered()[0], num_envs=16).run(plan_of(4))
    narrow = rollout_of(module, create, num_envs=4).run(plan_of(4))
    assert len(made) == 4
    for a, b in zip(wide, narrow, strict=True):
        for t in range(3):
            np.testing.assert_array_equal(
                a.get_extra_model_outputs(RESPONSE_IDS, t), b.get_extra_model_outputs(RESPONSE_IDS, t)
            )


def test_members_of_a_group_sample_different_responses(module):
    episodes = rollout_of(module, numbered()[0]).run(plan_of(1, group_size=8))
    responses = {tuple(e.get_extra_model_outputs(RESPONSE_IDS, 0)) for e in episodes}
    assert len(responses) > 1


@pytest.mark.parametrize(
    ("misbehave", "cause"),
    [
        (lambda env, method: 1 / 0 if (env.number, method, env.t) == (1, "step", 2) else None, "ZeroDivisionError"),
        (lambda env, method: sys.exit(3) if (env.number, method) == (1, "step") else None, "SystemExit"),
        (lambda env, method: sys.exit() if (env.number, method) == (1, "reset") else None, "SystemExit"),
        (lambda env, method: ("?", {}) if (env.number, method) == (1, "step") else None, "EnvironmentAnswerError"),
        (lambda env, method: (7, {}) if (env.number, method) == (1, "reset") else None, "EnvironmentAnswerError"),
        (lambda env, method: 1 / 0 if (env.number, method) == (1, "reset") else None, "ZeroDivisionError"),
        (lambda env, method: ("other", {}) if (env.number, method) == (1, "reset") else None, "UnequalStart"),
        (lambda env, method: anchored(env) if (env.number, method) == (1, "reset") else None, "EnvironmentAnswerError"),
    ],
)
def test_a_failing_member_leaves_its_group_and_is_counted(module, misbehave, cause):
    create, made = numbered(misbehave=misbehave)
    rollout = rollout_of(module, create)
    episodes = rollout.run(plan_of(1))
    assert [e.get_infos(0)[MEMBER] for e in episodes] == [0, 2, 3]
    counts = rollout.take_counts()
    assert counts["endings/env_failure"] == 1
    assert counts[f"env_failure_causes/{cause}"] == 1
    assert made[1].closed
    # The broken environment is replaced: the next plan is whole again.
    assert len(rollout.run(plan_of(1))) == 4
    assert rollout.take_counts()["endings/env_failure"] == 0


def test_a_last_info_without_won_is_said_once(module, caplog):
    rollout = rollout_of(module, lambda: Countdown(misbehave=silent_end))
    rollout.run(plan_of(2))
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "the last info of an episode has no 'won'"
    ]


def silent_end(env, method) -> tuple | None:
    return (env.observation, 0.0, True, False, {}) if (method, env.t) == ("step", env.steps) else None


def test_a_member_whose_service_failed_leaves_its_group_and_its_environment_stays(module):
    def unanswered(env, method):
        info = {"won": False, "service_failure": "NoAnswer", "service_failure_details": "nobody at home"}
        return (env.observation, 0.0, False, True, info) if (env.number, method, env.t) == (1, "step", 2) else None

    create, made = numbered(misbehave=unanswered)
    rollout = rollout_of(module, create)
    assert [e.get_infos(0)[MEMBER] for e in rollout.run(plan_of(1))] == [0, 2, 3]
    counts = rollout.take_counts()
    assert {name: count for name, count in counts.items() if "failure" in name} == {
        "endings/service_failure": 1,
        "service_failure_causes/NoAnswer": 1,
    }
    assert counts["endings/step_limit"] == 0
    assert rollout.last_failure == "nobody at home"
    assert not made[1].closed
    rollout.run(plan_of(1))
    assert len(made) == 4, "it is lent again"


def test_a_group_that_keeps_too_few_members_is_dropped_and_counted(module):
    create, _ = numbered(misbehave=lambda env, method: 1 / 0 if method == "step" and env.number < 3 else None)
    rollout = rollout_of(module, create, num_envs=4)
    assert rollout.run(plan_of(1)) == []
    counts = rollout.take_counts()
    assert counts["dropped_groups"] == 1
    assert counts["dropped_episodes"] == 1
    assert counts["endings/env_failure"] == 3


def test_a_prompt_that_outgrows_its_budget_ends_the_trajectory_as_truncated(module):
    def longer(env, method):
        return (env.observation * 40, 0.0, False, False, {}) if (method, env.t) == ("step", 2) else None

    rollout = rollout_of(module, numbered(misbehave=longer)[0])
    episodes = rollout.run(plan_of(1))
    assert all(len(e) == 2 and e.is_truncated and e.get_infos(-1)[ENDING] == "prompt_overflow" for e in episodes)
    assert rollout.take_counts()["endings/prompt_overflow"] == 4


def test_a_first_prompt_over_the_budget_leaves_nothing_to_train_on(module):
    rollout = rollout_of(module, numbered(observation="Numbers: 10 2. " * 100)[0])
    assert rollout.run(plan_of(1)) == []
    counts = rollout.take_counts()
    assert counts["endings/prompt_overflow"] == 4
    assert counts["dropped_groups"] == 1


def test_a_cut_response_is_an_ordinary_invalid_step(module):
    rollout = rollout_of(module, numbered()[0])
    episodes = rollout.run(plan_of(1, max_response_tokens=3))
    assert all(len(e.get_extra_model_outputs(RESPONSE_IDS, t)) == 3 for e in episodes for t in range(3))
    assert not any(e.get_infos(1)[IS_ACTION_VALID] for e in episodes)
    assert episodes[0].get_infos(1)[INVALID_REASON] == "no_think"
    counts = rollout.take_counts()
    assert counts["response_cut"] == 12
    assert counts["invalid_reasons/no_think"] == 12


def test_prompts_are_recorded_as_they_were_given_to_the_engine(module):
    episode = rollout_of(module, numbered()[0]).run(plan_of(1))[0]
    text = module.tokenizer.decode(episode.get_extra_model_outputs(PROMPT_IDS, 0))
    assert "Numbers: 10 2. Formula: empty<|im_end|>\n<|im_start|>assistant\n" in text


def test_it_runs_where_an_event_loop_already_runs(module):
    rollout = rollout_of(module, numbered()[0])

    async def in_a_notebook():
        return rollout.run(plan_of(1))

    assert len(asyncio.run(in_a_notebook())) == 4


def test_environments_that_start_one_after_the_other_have_answered(module):
    """All start before the first prompt: of many slow ones, each in time, no stall may be made."""
    seen = []

    def note(env, method):
        if method == "reset":
            seen.append(rollout._answers)

    rollout = rollout_of(module, numbered(misbehave=note)[0])
    rollout.run(plan_of(2, max_response_tokens=1))
    assert len(seen) == 8 and seen == sorted(set(seen))


def test_a_pool_without_room_for_a_group_is_refused(module):
    with pytest.raises(ValueError, match=r"num_envs_per_env_runner=2 .* group_size=4"):
        rollout_of(module, numbered()[0], num_envs=2).run(plan_of(1))


def tokens_of(episodes):
    infos = [episode.get_infos(0) for episode in episodes]
    tokens = [[ids.tolist() for ids in episode.get_extra_model_outputs(RESPONSE_IDS)] for episode in episodes]
    return [(info[GROUP_ID], info[MEMBER], ids) for info, ids in zip(infos, tokens, strict=True)]


@pytest.mark.parametrize("num_envs", [4, 6, 16])
def test_without_lock_step_the_same_groups_sample_the_same_tokens(module, num_envs):
    expected = rollout_of(module, numbered()[0]).run(plan_of(5))
    create, made = numbered()
    engine = FreeEngine(module, turns=lambda request: 1 + sum(request.order) % 3)
    rollout = rollout_of(module, create, num_envs=num_envs, engine=engine)
    assert tokens_of(rollout.run(plan_of(5))) == tokens_of(expected)
    assert len(made) <= num_envs
    assert rollout.take_counts()["endings/won"] == 20


def test_without_lock_step_nobody_waits_for_a_slow_member(module):
    slow = FreeEngine(module, turns=lambda request: 1000 if request.order == (0, 0) else 1)
    rollout_of(module, numbered()[0], num_envs=6, engine=slow).run(plan_of(3))
    second_of_the_slow = [at for at, order in enumerate(slow.asked) if order == (0, 0)][1]
    # Its own group has ended, and so have the others: the room that its fellow members left was enough for them.
    assert set(slow.asked[second_of_the_slow:]) == {(0, 0)}


def test_without_lock_step_a_failing_engine_ends_the_rollout_with_its_error(module):
    def fail(request):
        if request.order == (1, 2):
            raise FloatingPointError("logits are NaN")
        return 1

    create, made = numbered()
    rollout = rollout_of(module, create, num_envs=8, engine=FreeEngine(module, turns=fail))
    with pytest.raises(FloatingPointError, match="logits are NaN") as caught:
        rollout.run(plan_of(4))
    assert caught.value.__context__ is None
    assert all(env.closed for env in made), "environments of broken off trajectories are not lent again"


def test_without_lock_step_members_that_do_not_start_leave_their_room(module):
    def misbehave(env, method):
        return 1 / 0 if method == "reset" and env.task in (0, 1) else None

    rollout = rollout_of(module, numbered(misbehave=misbehave)[0], num_envs=4, engine=FreeEngine(module))
    assert len(rollout.run(plan_of(3))) == 4
    assert rollout.take_counts()["dropped_groups"] == 2


@pytest.mark.parametrize("engine", [HFEngine, FreeEngine])
def test_a_trajectory_that_has_spent_its_budget_is_cut_and_counted(module, engine):
    made = engine(module) if engine is FreeEngine else HFEngine(module.lm, module.tokenizer)
    rollout = rollout_of(module, numbered(steps=9)[0], engine=made)
    episodes = rollout.run(plan_of(1, max_steps=2))
    assert all(len(e) == 2 and e.is_truncated and e.get_infos(-1)[ENDING] == "straggler_cut" for e in episodes)
    assert rollout.take_counts()["endings/straggler_cut"] == 4

    episodes = rollout.run(plan_of(1, max_tokens=60))
    for episode in episodes:
        lengths = [len(ids) for ids in episode.get_extra_model_outputs(RESPONSE_IDS)]
        assert sum(lengths[:-1]) < 60 <= sum(lengths)
    assert rollout.take_counts()["endings/straggler_cut"] == 4


def test_a_trajectory_that_ends_with_its_budget_has_ended_by_itself(module):
    rollout = rollout_of(module, numbered(steps=3)[0])
    assert all(e.is_terminated for e in rollout.run(plan_of(1, max_steps=3)))
    assert rollout.take_counts()["endings/straggler_cut"] == 0
