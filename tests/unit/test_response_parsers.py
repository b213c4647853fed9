"""Response parsers: what they read, and why they do not."""

from __future__ import annotations

import pickle

import pytest

from rllib_gigpo.agent_formats import (
    RESPONSE_PARSERS,
    OneOf,
    ParsedResponse,
    ResponseParserError,
    check_parser,
    first_action,
    json_action,
    parse,
    response_parser,
    think_action,
)

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
        ("<think>漢字 🂡 ≠</think><action>Öffne Tür</action>", "öffne tür"),
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
        ("<THINK>t</THINK><action>go</action>", "upper_case_tags"),
        ("<Think>t</Think><ACTION>go</ACTION>", "upper_case_tags"),
        ("<THINK>t</THINK>", "no_think"),
        ("<think>t</think>", "no_action"),
        ("<think>t</think>go", "no_action"),
        ("<think>t</think><action>go", "no_action"),
        ("<think>t</think>go</action>", "no_action"),
        ("<think>t</think><Action>go</Action>", "upper_case_tags"),
        ("<think>t</think><think>u</think><action>go</action>", "multiple_thinks"),
        ("<think>t</think></think><action>go</action>", "multiple_thinks"),
        ("<think>t</think><action>go</action><action>stop</action>", "multiple_actions"),
        ("<think>t</think><action>go<action>stop</action>", "multiple_actions"),
        ("<action>go</action><think>t</think>", "wrong_order"),
        ("</think>t<think><action>go</action>", "wrong_order"),
        ("<think>t</think></action>go<action>", "wrong_order"),
        ("<think>t<action>go</action></think>", "nested_tags"),
        ("<think>t<action></think>go</action>", "nested_tags"),
        ("<action><think>t</think>go</action>", "nested_tags"),
        ("<think>a<think>b</think></think><action>go</action>", "multiple_thinks"),
        ("<think>t</think><action><action>go</action></action>", "multiple_actions"),
        ("Sure. <think>t</think><action>go</action>", "text_outside_tags"),
        ("<think>t</think> so <action>go</action>", "text_outside_tags"),
        ("<think>t</think><action>go</action>.", "text_outside_tags"),
        ("<think>t</think><action>go</action>\n<think", "text_outside_tags"),
        ("<think>t</think><action></action>", "empty_action"),
        ("<think>t</think><action> \n </action>", "empty_action"),
    ],
)
def test_think_action_says_why_a_response_is_invalid(text: str, reason: str) -> None:
    assert think_action(text) == ParsedResponse("", False, reason)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<think>t</think><action>go</action>", "go"),
        ("Sure. <THINK>t</THINK> so <Action> Go  to </ACTION> and on", "go to"),
        ("<action>go</action><think>t</think><action>stop</action>", "go"),
        ("<think>t<action>größe</action></think>", "größe"),
    ],
)
def test_first_action_reads_what_verl_agent_reads(text: str, action: str) -> None:
    assert first_action(text) == ParsedResponse(action, True, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no_action"),
        ("<think>t</think>", "no_action"),
        ("<think>t</think></action>go<action>", "no_action"),
        ("<think>t</think><action>go", "no_action"),
        ("<action>go</action>", "no_think"),
        ("<think>t<action>go</action>", "no_think"),
        ("<think>漢</think><action>go</action>", "cjk_characters"),
        ("<think>t</think><action> </action>", "empty_action"),
    ],
)
def test_first_action_says_why_a_response_is_invalid(text: str, reason: str) -> None:
    assert first_action(text) == ParsedResponse("", False, reason)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ('{"thoughts": "t", "action": "10"}', "10"),
        ('{"thoughts": "t", "action": 10}', "10"),
        (' \n{"cards": ["2", "5"], "formula": "2", "thoughts": {"a": 1}, "action": " Stand "}\n', "stand"),
        ('{"Thoughts": "t", "ACTION": "+"}', "+"),
        ('```json\n{"thoughts": "t", "action": "="}\n```', "="),
        ('```\n{"thoughts": "`", "action": "="}```', "="),
        ('<think>so {"a": 1}</think>\n{"thoughts": "t", "action": "-"}', "-"),
        ('{"thoughts": "line\nbreak", "action": "hit"}', "hit"),
        ('{"thoughts": "漢字 }{", "action": "ö"}', "ö"),
    ],
)
def test_json_action_reads_a_well_formed_response(text: str, action: str) -> None:
    assert json_action(text) == ParsedResponse(action, True, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no_json"),
        ("hit", "no_json"),
        ('["thoughts", "action"]', "no_json"),
        ('{"thoughts": "t", "action": "hit"', "no_json"),
        ("{'thoughts': 't', 'action': 'hit'}", "no_json"),
        ('{"a":' * 100_000, "no_json"),
        ('{"thoughts": "t", "action": "hit", "action": "stand"}', "repeated_key"),
        ('{"thoughts": "t", "action": "hit", "Action": "stand"}', "repeated_key"),
        ('{"thoughts": "t", "action": "hit"} Done.', "text_outside_json"),
        ('I say: {"thoughts": "t", "action": "hit"}', "text_outside_json"),
        ('{"thoughts": "t", "action": "hit"}{"thoughts": "t", "action": "hit"}', "text_outside_json"),
        ('{"action": "hit"}', "no_think"),
        ('{"thoughts": "t"}', "no_action"),
        ('{"thoughts": {"action": "hit"}}', "no_action"),
        ('{"thoughts": "t", "action": ["hit"]}', "action_is_no_text"),
        ('{"thoughts": "t", "action": null}', "action_is_no_text"),
        ('{"thoughts": "t", "action": true}', "action_is_no_text"),
        ('{"thoughts": "t", "action": 1.5}', "action_is_no_text"),
        ('{"thoughts": "t", "action": " "}', "empty_action"),
    ],
)
def test_json_action_says_why_a_response_is_invalid(text: str, reason: str) -> None:
    assert json_action(text) == ParsedResponse("", False, reason)


@pytest.mark.parametrize(
    ("action", "parsed"),
    [
        ("Up", ParsedResponse("up", True, None)),
        ("go up!", ParsedResponse("up", True, None)),
        ("down, not up", ParsedResponse("", False, "several_actions")),
        ("up, up", ParsedResponse("", False, "several_actions")),
        ("jump", ParsedResponse("", False, "unknown_action")),
        ("upward", ParsedResponse("", False, "unknown_action")),
        ("ｕｐ", ParsedResponse("", False, "unknown_action")),
        (" ", ParsedResponse("", False, "empty_action")),
    ],
)
def test_one_of_finds_the_one_action_that_is_meant(action: str, parsed: ParsedResponse) -> None:
    assert OneOf(("up", "down"))(f"<think>down</think><action>{action}</action>") == parsed


def test_one_of_takes_another_parser_and_longer_actions_first() -> None:
    parser = OneOf(("1", "10", "+"), parser="json_action")
    assert parser('{"thoughts": "t", "action": "the 10"}').action == "10"
    assert parser('{"thoughts": "t", "action": "+"}').action == "+"
    assert parser('{"thoughts": "t", "action": "1 +"}').reason == "several_actions"
    assert parser("+").reason == "no_json"
    again = pickle.loads(pickle.dumps(parser))
    assert again == parser != OneOf(("1", "10", "+"))
    assert again('{"thoughts": "t", "action": "10"}').action == "10"


def test_a_parser_is_found_by_name_or_given_as_a_function() -> None:
    assert response_parser("think_action") is think_action
    assert response_parser(think_action) is think_action
    assert response_parser(f"{__name__}:own_parser") is own_parser
    with pytest.raises(ValueError, match=r"'thinkaction'; known are \['first_action', 'json_action', 'think_action'\]"):
        response_parser("thinkaction")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_package.module:parse", "cannot be imported: ModuleNotFoundError: No module named 'no_such_package'"),
        ("string:no_such_parser", "cannot be imported: AttributeError"),
        ("string:digits", "is a str; it must be a function"),
    ],
)
def test_a_parser_that_is_nowhere_is_named(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^response_parser='{name}' {message}"):
        response_parser(name)


def own_parser(text: str) -> ParsedResponse:
    return ParsedResponse(text, True, None)


def raising_parser(text: str) -> ParsedResponse:
    return ParsedResponse(text.split("<action>")[1], True, None)


def test_a_parser_that_raises_is_found_out_before_anything_starts() -> None:
    for parser in [*RESPONSE_PARSERS, OneOf(("up",)), own_parser]:
        check_parser(parser)
    with pytest.raises(ResponseParserError, match=r"'raising_parser' raised IndexError: .* on the response ''"):
        check_parser(f"{__name__}:raising_parser")
    with pytest.raises(ResponseParserError, match=r"<lambda>' returned '' for the response ''; it must"):
        check_parser(lambda text: text)


@pytest.mark.parametrize(
    "answer",
    [ParsedResponse("", False, None), ParsedResponse("", False, ""), ParsedResponse("", False, 3), ("a", "yes", None)],
)
def test_a_parser_must_say_whether_and_why_not(answer: tuple) -> None:
    with pytest.raises(ResponseParserError, match="is_valid must be True, or False with a word as its reason"):
        parse(lambda text: ParsedResponse(*answer), "go")


def test_what_a_parser_does_wrong_later_is_shown_with_the_response() -> None:
    assert parse(own_parser, "go") == ParsedResponse("go", True, None)
    with pytest.raises(ResponseParserError, match=r"raised IndexError: .* on the response 'g{80}…'"):
        parse(raising_parser, "g" * 1000)
    with pytest.raises(ResponseParserError, match=r"returned .* a ParsedResponse with a str as its action"):
        parse(lambda text: ParsedResponse(None, False, "x"), "go")
