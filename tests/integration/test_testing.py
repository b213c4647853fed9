"""`rllib_gigpo.testing` with new processes and with prompts; environments of ours pass."""

from __future__ import annotations

from importlib import import_module

import pytest

from rllib_gigpo import registry
from rllib_gigpo.agent_formats import AgentFormat
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.testing import EnvironmentContractError, check_prompts, check_repeats
from tests.alfworld_cases import needs_alfworld
from tests.broken_environments import SaltedHash
from tests.textarena_cases import needs_textarena
from tests.webshop_cases import needs_webshop

pytestmark = pytest.mark.integration

EZPOINTS = {"model_path": embedded_model_path("EZPoints"), "episodes": 3}


def test_a_trajectory_is_the_same_in_new_processes() -> None:
    check_repeats("Household", {"max_steps": 12}, tasks=2)


def test_a_trajectory_that_depends_on_the_salt_of_hashes_is_found() -> None:
    with pytest.raises(EnvironmentContractError, match=r"task .*, step 0: this process shows .*Code"):
        check_repeats(SaltedHash, tasks=2)


def test_prompts_are_measured_as_a_rollout_builds_them() -> None:
    lengths = check_prompts("EZPoints", max_prompt_tokens=160, **EZPOINTS)
    assert 0 < lengths.mean <= lengths.longest <= 160
    assert lengths.shortened_share == 0
    history = AgentFormat(
        prompt_template="{% for turn in history %}{{ turn.observation }} {% endfor %}{{ observation }}",
        history_length=8,
    )
    shown = check_prompts("EZPoints", max_prompt_tokens=1000, agent_format=history, **EZPOINTS)
    # Without room for the whole history, the oldest turns are left out.
    cut = check_prompts("EZPoints", max_prompt_tokens=shown.longest - 1, agent_format=history, **EZPOINTS)
    assert cut.longest < shown.longest and cut.shortened_share > 0


def test_a_prompt_that_cannot_fit_is_an_error_that_names_the_key() -> None:
    with pytest.raises(EnvironmentContractError, match="step 0: the prompt takes more than max_prompt_tokens=8 even"):
        check_prompts("EZPoints", max_prompt_tokens=8, **EZPOINTS)


def test_images_count_as_the_tokens_that_they_are() -> None:
    small, large = (
        check_prompts(
            "EZPoints",
            {"observation": "image", "image_size": size},
            model_path=embedded_model_path("EZPoints", observation="image"),
            max_prompt_tokens=400,
            episodes=1,
            max_steps=1,
        ).longest
        for size in (32, 300)
    )
    # To this model a picture is 28 × 28 to 56 × 56 pixels, and 28 × 28 of them are a token.
    assert large == small + 3


NEEDS = {"alfworld": needs_alfworld, "textarena": needs_textarena, "webshop": needs_webshop}
TINY = [name for name in registry.example_names() if name.endswith("_tiny") and "sweep" not in name]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=NEEDS.get(name.split("/")[1].split("_")[0], ())) for name in TINY]
)
def test_the_prompts_of_a_tuned_example_fit(name: str) -> None:
    config = import_module(registry.example_module(name)).config
    check_prompts(
        config.env,
        config.env_config,
        model_path=config.model_path,
        max_prompt_tokens=config.max_prompt_tokens,
        agent_format=config.resolved_agent_format(),
        episodes=2,
        max_steps=20,
    )
