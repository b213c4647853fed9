"""Question answering with a search engine, in the settings of Search-R1 (Jin et al. 2025, arXiv 2503.09516)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rllib_gigpo.agent_formats import AgentFormat
from rllib_gigpo.environment_entry import EnvironmentEntry

# The question comes last, at a constant distance from where the answer begins: a tiny model copies from there, and
# hardly from a question at the beginning. The first turn of the history shows the question, too.
SEARCH_QA_PROMPT = """\
Answer the question. Reply <think> reason </think><search> what to look up </search>, or, once you know the answer, \
<think> reason </think><answer> the answer alone </answer>.
{% for turn in history %}
{% if turn.observation != task %}
{{ turn.observation }}
{% endif %}
{{ turn.action or "(no valid action)" }}
{% endfor %}
{% if observation != task %}
{{ observation }}
{% endif %}
Question: {{ task }}"""

# What the embedded model knows: one passage a search. Of three, it would have to find the right one.
TINY_OPTIONS: Mapping[str, Any] = {"topk": 1}

SEARCH_QA = EnvironmentEntry(
    name="SearchQA",
    entry_point="rllib_gigpo.env_adapters.search_qa.search_qa:SearchQA",
    agent_format=AgentFormat(
        prompt_template=SEARCH_QA_PROMPT,
        history_length="full",
        response_parser="rllib_gigpo.env_adapters.search_qa.responses:search_or_answer",
    ),
    embedded_model=Path(__file__).parent / "embedded_models" / "search_qa",
    # Questions that are made up, and a search engine in the environment's own process.
    small_env_config={"data": None, "evaluation_data": None, "retriever_url": None, "max_steps": 2},
)
