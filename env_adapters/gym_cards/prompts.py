"""Prompt templates of the card games.

`*_PROMPT` ask for tags, the default. `*_JSON_PROMPT` ask for one JSON object, as the card papers do: use them with
`response_parser="json_action"`. Earlier turns appear where `history_length` is not 0.

The observation comes last, so that the end of every prompt looks alike: a tiny model then finds the formula at a
constant distance from where it writes.
"""

from __future__ import annotations

_HISTORY_AND_OBSERVATION = """\
{% for turn in history %}
{{ turn.observation }} -> {{ turn.action or "no valid action" }}
{% endfor %}
{{ observation }}"""

_JSON_REPLY = """\
Reply with one JSON object and nothing else: {"thoughts": "<your reasoning>", "action": "<your action>"}.
"""

_NUMBERLINE_RULES = """\
Bring the current number to the target. Each turn, answer "+" to add one to it or "-" to take one from it.
"""
_EZPOINTS_RULES = """\
Make 12 using both numbers once. Each turn, add one part: a number, + or *; at the end, =.
"""
_POINTS24_RULES = """\
Make 24 using each of the four numbers once. Each turn, add one part: a number, +, -, *, /, ( or ); at the end, =.
"""
_BLACKJACK_RULES = """\
Blackjack: get closer to 21 than the dealer, but not above it. An ace counts 11, or 1 where 11 would be too much; a \
face card counts 10. The dealer draws until 17 or more. Each turn, answer "hit" for one more card or "stand" to stop.
"""

NUMBERLINE_PROMPT = (
    _NUMBERLINE_RULES + "Reply <think>reason</think><action>+ or -</action>.\n" + _HISTORY_AND_OBSERVATION
)
EZPOINTS_PROMPT = _EZPOINTS_RULES + "Reply <think>reason</think><action>part</action>.\n" + _HISTORY_AND_OBSERVATION
POINTS24_PROMPT = _POINTS24_RULES + "Reply <think>reason</think><action>part</action>.\n" + _HISTORY_AND_OBSERVATION
BLACKJACK_PROMPT = (
    _BLACKJACK_RULES + "Reply <think>reason</think><action>hit or stand</action>.\n" + _HISTORY_AND_OBSERVATION
)

NUMBERLINE_JSON_PROMPT = _NUMBERLINE_RULES + _JSON_REPLY + _HISTORY_AND_OBSERVATION
EZPOINTS_JSON_PROMPT = _EZPOINTS_RULES + _JSON_REPLY + _HISTORY_AND_OBSERVATION
POINTS24_JSON_PROMPT = _POINTS24_RULES + _JSON_REPLY + _HISTORY_AND_OBSERVATION
BLACKJACK_JSON_PROMPT = _BLACKJACK_RULES + _JSON_REPLY + _HISTORY_AND_OBSERVATION
