"""Prompt templates and the agent format that holds them."""

from __future__ import annotations

import pickle
from pathlib import Path

import jinja2
import pytest

from rllib_gigpo.agent_formats import AgentFormat, OneOf, PromptTemplate, Turn, template_source
from rllib_gigpo.agent_formats.image_marks import image_mark, split_at_marks
from rllib_gigpo.env_adapters import make_env
from rllib_gigpo.env_adapters.gym_cards import prompts
from rllib_gigpo.registry import environment, environment_names

pytestmark = pytest.mark.unit

TEMPLATE = "{{ observation }} {{ step }}"


def test_a_template_renders_history_oldest_first() -> None:
    template = PromptTemplate(
        "{% if task %}\nTask: {{ task }}\n{% endif %}\n"
        "{% for turn in history %}\n{{ turn.observation }} -> {{ turn.action }}\n{% endfor %}\n"
        "{{ step }}: {{ observation }} {{ admissible_actions | join('/') }}"
    )
    history = [Turn("a", "x"), Turn("b", "y")]
    rendered = template.render(observation="c", history=history, step=2, task="win", admissible_actions=["x", "y"])
    assert rendered == "Task: win\na -> x\nb -> y\n2: c x/y"
    assert template.render(observation="c", history=[], step=0, admissible_actions=["x"]) == "0: c x"


def test_an_observation_is_never_read_as_a_template_or_escaped() -> None:
    observation = "{{ step }} <b> & {% raw %}"
    assert PromptTemplate("{{ observation }}").render(observation=observation, history=[], step=0) == observation


def test_an_unknown_variable_is_named_when_the_template_is_made() -> None:
    with pytest.raises(ValueError, match=r"unknown variables \['obs', 'steps'\]; known are \['observation', 'history'"):
        PromptTemplate("{{ obs }} {{ steps }} {{ observation }} {% for i in range(2) %}{{ i }}{% endfor %}")


@pytest.mark.parametrize(
    "source",
    [
        "{% for turn in history %}{{ turn.reward }}{% endfor %}",
        "{% for turn in history[-2:] %}{{ turn.reward }}{% endfor %}",
        "{{ history[-1].reward }}",
    ],
)
def test_an_unknown_field_of_a_turn_is_named_when_the_template_is_made(source: str) -> None:
    with pytest.raises(
        ValueError, match=r"unknown fields \['reward'\] of a turn.*known are \['observation', 'action', 'image'\]"
    ):
        PromptTemplate(source)


def test_a_template_is_a_source_or_a_file_or_a_name(tmp_path: Path) -> None:
    file = tmp_path / "prompt.jinja"
    file.write_text("Größe {{ observation }}", encoding="utf-8")
    assert template_source(str(file)) == template_source(file) == "Größe {{ observation }}"
    assert template_source("{{ observation }}") == "{{ observation }}"
    assert template_source(f"{__name__}:TEMPLATE") == TEMPLATE
    assert template_source(None) is None and template_source(5) == 5


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "no/such/file.jinja",
            r"'no/such/file.jinja' holds no .*, so it must be the path of a file",
        ),
        ("Act!", "'Act!' holds no"),
        (".", "'.' holds no"),
        ("no_such_package.module:TEMPLATE", "cannot be imported: ModuleNotFoundError: No module named 'no_such"),
        ("string:no_such_name", "cannot be imported: AttributeError"),
        ("string:capwords", "is a function; it must be a string"),
    ],
)
def test_a_template_that_is_nowhere_is_named(value: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^prompt_template=.*{message}"):
        template_source(value)


def test_a_syntax_error_is_told_with_its_line() -> None:
    with pytest.raises(ValueError, match="does not compile, line 2"):
        PromptTemplate("{{ observation }}\n{% if %}")


def test_a_template_does_not_print_what_is_missing() -> None:
    with pytest.raises(ValueError, match="None"):
        PromptTemplate("{{ task }}").render(observation="o", history=[], step=0)
    with pytest.raises(jinja2.UndefinedError, match="reward"):
        PromptTemplate("{{ (history | first).reward }}").render(observation="o", history=[Turn("a", "x")], step=1)


def test_a_template_runs_in_a_sandbox() -> None:
    with pytest.raises(jinja2.exceptions.SecurityError):
        PromptTemplate("{{ observation.__class__.__mro__ }}").render(observation="o", history=[], step=0)
    with pytest.raises(jinja2.exceptions.SecurityError):
        PromptTemplate("{{ history.append(1) }}").render(observation="o", history=[], step=0)


def test_templates_and_formats_pickle() -> None:
    template = pickle.loads(pickle.dumps(PromptTemplate("{{ step }} {{ observation }}")))
    assert template.render(observation="o", history=[], step=3) == "3 o"
    agent_format = AgentFormat("{{ observation }}", response_parser=OneOf(("up", "down")), stop=("</action>",))
    assert pickle.loads(pickle.dumps(agent_format)) == agent_format


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt_template": "{{ obs }}"}, "unknown variables"),
        ({"history_length": -1}, "history_length is -1"),
        ({"history_length": "all"}, "history_length='all' must be an integer, or 'full'"),
        ({"history_length": 2}, "history_length=2 has no effect: the prompt_template never shows `history`"),
        ({"history_length": "full"}, "history_length='full' has no effect"),
        ({"response_parser": "json"}, "response_parser is 'json'"),
        ({"response_parser": "no_such_module:parse"}, "response_parser='no_such_module:parse' cannot be imported"),
        ({"stop": "</action>"}, "tuple"),
        ({"stop": ("",)}, "non-empty"),
        ({"examples": (("only one",),)}, "pairs of strings"),
        ({"examples": ["no tuple"]}, "pairs of strings"),
        ({"examples": (("question", ""),)}, "pairs of strings"),
    ],
)
def test_a_wrong_agent_format_is_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AgentFormat(**{"prompt_template": "{{ observation }}", **options})


@pytest.mark.parametrize("name", environment_names())
def test_every_environments_prompt_shows_history_where_that_is_asked_for(name: str) -> None:
    template = PromptTemplate(environment(name).agent_format.prompt_template)
    about = {"task": "put a in b", "admissible_actions": ["x"]}
    without = template.render(observation="NOW", history=[], step=2, **about)
    shown = template.render(observation="NOW", history=[Turn("FIRST", "go"), Turn("SECOND", "")], step=2, **about)
    # In ALFWorldTiny the admissible actions say what there is to see.
    assert ("NOW" in without or name == "ALFWorldTiny") and "FIRST" not in without
    assert shown.index("FIRST") < shown.index("SECOND") < shown.index("NOW") and "go" in shown
    assert without.splitlines() == [line for line in shown.splitlines() if line in without.splitlines()]


@pytest.mark.parametrize("name", ["NUMBERLINE", "EZPOINTS", "POINTS24", "BLACKJACK"])
def test_the_json_prompts_of_the_card_games_say_what_the_parser_reads(name: str) -> None:
    template = PromptTemplate(getattr(prompts, f"{name}_JSON_PROMPT"))
    rendered = template.render(observation="NOW", history=[Turn("BEFORE", "")], step=1)
    assert '"thoughts"' in rendered and '"action"' in rendered and "{%" not in rendered
    assert rendered.endswith("BEFORE -> no valid action\nNOW")
    assert name == "BLACKJACK" or PromptTemplate(getattr(prompts, f"{name}_PROMPT")).shows_history


def test_a_prompt_of_a_real_start() -> None:
    observation, _ = make_env("Blackjack").reset(options={"task": 1})
    rendered = PromptTemplate(prompts.BLACKJACK_PROMPT).render(observation=observation, history=[], step=0)
    assert rendered.splitlines()[1:] == ["Reply <think>reason</think><action>hit or stand</action>.", observation]


def test_a_message_is_split_at_the_marks_of_its_images() -> None:
    message = f"a{image_mark(1)}{image_mark(0)}b"
    assert split_at_marks(message, 2) == ["a", 1, 0, "b"]
    # What an environment writes may look like the mark of an image that is not there.
    assert split_at_marks(message, 1) == [f"a{image_mark(1)}", 0, "b"]
    assert split_at_marks(image_mark(0), 1) == [0] and split_at_marks("", 1) == []


def test_an_image_comes_first_unless_the_template_places_it() -> None:
    mark = image_mark(0)
    assert PromptTemplate("{{ observation }}").render(observation="o", history=[], step=0, image=mark) == f"{mark}o"
    placed = PromptTemplate("{{ observation }}{% if image %}:{{ image }}{% endif %}")
    assert placed.render(observation="o", history=[], step=0, image=mark) == f"o:{mark}"
    assert placed.render(observation="o", history=[], step=0) == "o"
