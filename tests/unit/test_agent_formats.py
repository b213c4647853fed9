"""Prompt templates, response parsers and the agent format that holds them."""

from __future__ import annotations

import pickle

import jinja2
import numpy as np
import pytest

from rllib_gigpo.agent_formats import (
    AgentFormat,
    ParsedResponse,
    PromptTemplate,
    Turn,
    encode_prompt,
    response_parser,
    think_action,
)
from rllib_gigpo.rl_modules.embedded import build_tokenizer

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<think>t</think><action>go</action>", "go"),
        ("\n <think>t</think>\n\n<action>go</action> \n", "go"),
        ("<think></think><action>go</action>", "go"),
        ("<think>t</think><action>  Go\n to   FRIDGE\t1 </action>", "go to fridge 1"),
        ("<think>a\nb <b> < c</think><action>=</action>", "="),
        ("<think>t</think><action>search[2 > 1]</action>", "search[2 > 1]"),
    ],
)
def test_think_action_reads_a_well_formed_response(text: str, action: str) -> None:
    assert think_action(text) == ParsedResponse(action, True, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no_think"),
        ("go", "no_think"),
        ("<action>go</action>", "no_think"),
        ("<think>t<action>go</action>", "no_think"),
        ("t</think><action>go</action>", "no_think"),
        ("<THINK>t</THINK><action>go</action>", "no_think"),
        ("<think>t</think>", "no_action"),
        ("<think>t</think>go", "no_action"),
        ("<think>t</think><action>go", "no_action"),
        ("<think>t</think>go</action>", "no_action"),
        ("<think>t</think><Action>go</Action>", "no_action"),
        ("<think>t</think><think>u</think><action>go</action>", "multiple_thinks"),
        ("<think>t</think></think><action>go</action>", "multiple_thinks"),
        ("<think>t</think><action>go</action><action>stop</action>", "multiple_actions"),
        ("<think>t</think><action>go<action>stop</action>", "multiple_actions"),
        ("<action>go</action><think>t</think>", "wrong_order"),
        ("</think>t<think><action>go</action>", "wrong_order"),
        ("<think>t</think></action>go<action>", "wrong_order"),
        ("<think>t<action>go</action></think>", "wrong_order"),
        ("<think>t<action></think>go</action>", "wrong_order"),
        ("Sure. <think>t</think><action>go</action>", "text_outside_tags"),
        ("<think>t</think> so <action>go</action>", "text_outside_tags"),
        ("<think>t</think><action>go</action>.", "text_outside_tags"),
        ("<think>t</think><action></action>", "empty_action"),
        ("<think>t</think><action> \n </action>", "empty_action"),
    ],
)
def test_think_action_says_why_a_response_is_invalid(text: str, reason: str) -> None:
    assert think_action(text) == ParsedResponse("", False, reason)


def test_a_parser_is_found_by_name_or_given_as_a_function() -> None:
    assert response_parser("think_action") is think_action
    assert response_parser(think_action) is think_action
    with pytest.raises(ValueError, match=r"'thinkaction'; known are \['think_action'\]"):
        response_parser("thinkaction")


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


def test_a_syntax_error_is_told_with_its_line() -> None:
    with pytest.raises(ValueError, match="does not compile, line 2"):
        PromptTemplate("{{ observation }}\n{% if %}")


def test_a_template_does_not_print_what_is_missing() -> None:
    with pytest.raises(ValueError, match="None"):
        PromptTemplate("{{ task }}").render(observation="o", history=[], step=0)
    with pytest.raises(jinja2.UndefinedError, match="reward"):
        PromptTemplate("{{ history[0].reward }}").render(observation="o", history=[Turn("a", "x")], step=1)


def test_a_template_runs_in_a_sandbox() -> None:
    with pytest.raises(jinja2.exceptions.SecurityError):
        PromptTemplate("{{ observation.__class__.__mro__ }}").render(observation="o", history=[], step=0)
    with pytest.raises(jinja2.exceptions.SecurityError):
        PromptTemplate("{{ history.append(1) }}").render(observation="o", history=[], step=0)


def test_templates_and_formats_pickle() -> None:
    template = pickle.loads(pickle.dumps(PromptTemplate("{{ step }} {{ observation }}")))
    assert template.render(observation="o", history=[], step=3) == "3 o"
    agent_format = AgentFormat("{{ observation }}", history_length=2, response_parser=think_action, stop=("</action>",))
    assert pickle.loads(pickle.dumps(agent_format)) == agent_format


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt_template": "{{ obs }}"}, "unknown variables"),
        ({"history_length": -1}, "history_length is -1"),
        ({"response_parser": "json"}, "response_parser is 'json'"),
        ({"stop": "</action>"}, "tuple"),
        ({"stop": ("",)}, "non-empty"),
    ],
)
def test_a_wrong_agent_format_is_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AgentFormat(**{"prompt_template": "{{ observation }}", **options})


def test_encode_prompt_is_the_chat_template_with_the_assistants_turn_open() -> None:
    tokenizer = build_tokenizer(["Make 12.", "Numbers: 10 2."])
    ids = encode_prompt(tokenizer, "Numbers: 10 2.")
    assert ids.dtype == np.int32 and ids.ndim == 1
    assert tokenizer.decode(ids) == "<|im_start|>user\nNumbers: 10 2.<|im_end|>\n<|im_start|>assistant\n"


def test_encode_prompt_needs_a_chat_template() -> None:
    tokenizer = build_tokenizer(["a"])
    tokenizer.chat_template = None
    with pytest.raises(ValueError, match="no chat template"):
        encode_prompt(tokenizer, "a")
