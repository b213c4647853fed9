"""GroupRollout on the real engine, with environments that misbehave."""

import asyncio
import string

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rllib_gigpo.algorithms.gigpo.gigpo import GiGPOConfig
from rllib_gigpo.columns import ENDING, GROUP_ID, INVALID_REASON, IS_ACTION_VALID, MEMBER, PROMPT_IDS, RESPONSE_IDS
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.env_runners.environment_pool import InlinePool
from rllib_gigpo.env_runners.group_rollout import GroupRollout
from rllib_gigpo.env_runners.rollout_plan import GroupPlan, RolloutPlan
from rllib_gigpo.inference.hf_engine import HFEngine
from rllib_gigpo.inference.protocol import SamplingParams
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


def rollout_of(module, create, *, num_envs=16, max_prompt_tokens=160) -> GroupRollout:
    config = GiGPOConfig().environment("EZPoints").generation(max_prompt_tokens=max_prompt_tokens)
    pool = InlinePool(create, num_envs)
    return GroupRollout(
        pool=pool,
        engine=HFEngine(module.lm, module.tokenizer),
        rl_module=module,
        env_to_module=config.build_env_to_module_connector(env=pool),
        module_to_env=config.build_module_to_env_connector(env=pool),
    )


def plan_of(num_groups, *, group_size=4, min_group_size=2, max_response_tokens=24) -> RolloutPlan:
    return RolloutPlan(
        tuple(GroupPlan(i, task=i, env_seed=i, sampling_seed=100 + i) for i in range(num_groups)),
        group_size=group_size,
        min_group_size=min_group_size,
        sampling=SamplingParams(max_response_tokens=max_response_tokens),
    )


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
        (lambda env, method: ("?", {}) if (env.number, method) == (1, "step") else None, "EnvironmentAnswerError"),
        (lambda env, method: (7, {}) if (env.number, method) == (1, "reset") else None, "EnvironmentAnswerError"),
        (lambda env, method: 1 / 0 if (env.number, method) == (1, "reset") else None, "ZeroDivisionError"),
        (lambda env, method: ("other", {}) if (env.number, method) == (1, "reset") else None, "UnequalStart"),
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


def test_a_pool_without_room_for_a_group_is_refused(module):
    with pytest.raises(ValueError, match=r"num_envs_per_env_runner=2 .* group_size=4"):
        rollout_of(module, numbered()[0], num_envs=2).run(plan_of(1))
