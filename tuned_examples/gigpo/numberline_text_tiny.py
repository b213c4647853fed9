"""GiGPO teaches a tiny language model of another game to walk to a number in NumberLine, on a CPU, in minutes.

    rllib train file tuned_examples/gigpo/numberline_text_tiny.py

NumberLine comes with no model of its own. This is EZPoints', which can answer EZPoints' prompt and no other, so it
gets that prompt with NumberLine's numbers in it; and as it never writes "-", "*" stands for that. Each iteration
plays 8 tasks 8 times each. Seed 0, the only one tried, went from 0.45 success in the first iteration, chance being
0.60, to 0.83 in the twelfth, the last one that was run, and from 64 % of actions invalid to 7 %.

With a model that reads, leave `agent_format` out: NumberLine has a prompt of its own.
"""

from rllib_gigpo.agent_formats import ParsedResponse, think_action
from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.env_adapters.gym_cards.prompts import EZPOINTS_PROMPT


def parse(text: str) -> ParsedResponse:
    """Reads "*" as "-"."""
    parsed = think_action(text)
    return parsed._replace(action="-") if parsed.action == "*" else parsed


config = (
    GiGPOConfig()
    .environment("NumberLine")
    .language_model(model_path=str(embedded_model_path("EZPoints")))
    .agent_format(prompt_template=EZPOINTS_PROMPT, response_parser=parse)
    .generation(max_prompt_tokens=160, max_response_tokens=32)
    .training(
        group_size=8,
        groups_per_iteration=8,
        num_minibatches=4,
        # Three hundred times what suits a model of billions of parameters: this one has 0.4 million.
        lr=3e-4,
        adam_betas=(0.9, 0.95),
        weight_decay=0.0,
    )
    .evaluation(evaluation_duration=128)
    # All in one process: with a model this small, actors cost more than they bring.
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
    .debugging(seed=0)
)

stop = {"training_iteration": 40}
