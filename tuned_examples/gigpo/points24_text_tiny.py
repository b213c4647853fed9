"""GiGPO trains a tiny language model of another game on Points24, on a CPU.

    rllib train file tuned_examples/gigpo/points24_text_tiny.py

Points24 comes with no model of its own. This is EZPoints', which can answer EZPoints' prompt and no other, so it gets
that prompt with the numbers of Points24 in it. It was made for formulas of two numbers with "+" and "*", and is not
expected to make 24 of four; it can learn not to write what is invalid. How far this gets has not been measured: the
tests run three small iterations of it.

For success, name the directory of a model that can count as `model_path`, and leave `agent_format` out: Points24 has
a prompt of its own.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.env_adapters.gym_cards.prompts import EZPOINTS_PROMPT

config = (
    GiGPOConfig()
    # The rewards of Zhai et al. 2024: with GiGPO's own, nothing but a win is worth anything.
    .environment("Points24", env_config={"solvable_only": True, "reward_scheme": "rl4vlm"})
    .language_model(model_path=str(embedded_model_path("EZPoints")))
    .agent_format(prompt_template=EZPOINTS_PROMPT)
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

stop = {"training_iteration": 20}
