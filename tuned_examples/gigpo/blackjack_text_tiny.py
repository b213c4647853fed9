"""GiGPO trains a tiny language model of another game to know when to stop in Blackjack, on a CPU.

    rllib train file tuned_examples/gigpo/blackjack_text_tiny.py

Blackjack comes with no model of its own. This is EZPoints', which can answer EZPoints' prompt and no other, so it
gets that prompt with Blackjack's numbers in it, and "+" stands for "hit", "=" for "stand". Each iteration plays 16
decks 8 times each. How far this gets has not been measured: the tests run three small iterations of it. Chance wins
0.27; one who knew the order of the cards would win 0.61.

With a model that reads, leave `agent_format` out: Blackjack has a prompt of its own.
"""

from rllib_gigpo.agent_formats import ParsedResponse, think_action
from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.env_adapters.gym_cards.prompts import EZPOINTS_PROMPT

MEANING = {"+": "hit", "=": "stand"}


def parse(text: str) -> ParsedResponse:
    """Reads "+" as "hit" and "=" as "stand"; anything else is no action of Blackjack."""
    parsed = think_action(text)
    if parsed.is_valid and parsed.action not in MEANING:
        return ParsedResponse("", False, "unknown_action")
    return parsed._replace(action=MEANING.get(parsed.action, ""))


config = (
    GiGPOConfig()
    .environment("Blackjack")
    .language_model(model_path=str(embedded_model_path("EZPoints")))
    .agent_format(prompt_template=EZPOINTS_PROMPT, response_parser=parse)
    .generation(max_prompt_tokens=160, max_response_tokens=32)
    .training(
        group_size=8,
        groups_per_iteration=16,
        num_minibatches=4,
        # Three hundred times what suits a model of billions of parameters: this one has 0.4 million.
        lr=3e-4,
        adam_betas=(0.9, 0.95),
        weight_decay=0.0,
    )
    .evaluation(evaluation_duration=512)
    # All in one process: with a model this small, actors cost more than they bring.
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
    .debugging(seed=0)
)

stop = {"training_iteration": 40}
