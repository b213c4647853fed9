"""GiGPO teaches two embedded tiny language models a relay of two agents in RelayHousehold, on a CPU, in minutes.

    rllib train file tuned_examples/gigpo/relay_household_text_tiny.py

One model finds an object and passes it on, the other puts it away. Both begin with the same weights, which come warmed
up: together they win about one game in twelve. Each iteration plays 16 tasks 8 times each. Seed 0, the only one tried,
went from 0.07 success in the first iteration to 0.79 in the fifth, the last one that was run. With one model for both
agents, `policies={"both"}` and a mapping to "both", it was 0.70 in the sixth.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path

config = (
    GiGPOConfig()
    .environment("RelayHousehold")
    .multi_agent(
        policies={"finder", "placer"},
        # A policy for each agent, named after it.
        policy_mapping_fn=lambda agent_id, episode, **kwargs: agent_id,
    )
    .language_model(model_path=str(embedded_model_path("RelayHousehold")))
    .generation(max_prompt_tokens=160, max_response_tokens=32)
    .training(
        group_size=8,
        groups_per_iteration=16,
        num_minibatches=4,
        # Far above what suits a model of billions of parameters: these have 0.4 million.
        lr=5e-4,
        adam_betas=(0.9, 0.95),
        weight_decay=0.0,
        # One ratio per response. Averaged over 17 tokens it hardly leaves 1, hence the narrow clip.
        ratio="sequence",
        clip_low=0.02,
        clip_high=0.02,
        # A win is worth 10, an invalid action costs 0.1. Without a floor, a group that differs only in its number of
        # invalid actions would move the weights as much as one in which some members won.
        advantage_std_floor=1.0,
    )
    .evaluation(evaluation_duration=128)
    # All in one process: with models this small, actors cost more than they bring.
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
    .debugging(seed=0)
)

stop = {"training_iteration": 30}
