"""GiGPO in a tiny WebShop with a tiny language model of another game: how it is set up, on a CPU.

    pip install "rllib-gigpo[webshop]"
    rllib train file tuned_examples/gigpo/webshop_text_tiny.py

WebShop comes with no model of its own. This is Household's, which does not know WebShop's prompt and never searched: it
wins nothing, and from goals of which none is reached nothing is learned. webshop_qwen25_1_5b.py has the papers'
setting. The tests run three small iterations of it; more was not tried.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path

config = (
    GiGPOConfig()
    .environment(
        "WebShop",
        env_config={
            # Made up on the spot, whatever data there is, and so few that all results fit into the model's 1024 tokens.
            "data": "",
            "num_products": 5,
            "max_steps": 8,
            # By where the shopper is and what was chosen, which the page of a product does not show.
            "anchor_state": "state",
            # The score from 0 to 1, not just success: what comes near is better than nothing.
            "reward_scheme": "webshop",
        },
    )
    .language_model(model_path=str(embedded_model_path("Household")))
    # Earlier pages would not fit.
    .agent_format(history_length=0)
    .generation(max_prompt_tokens=960, max_response_tokens=32)
    .training(
        group_size=8,
        groups_per_iteration=8,
        num_minibatches=4,
        # Far above what suits a model of billions of parameters: this one has 0.4 million.
        lr=5e-4,
        adam_betas=(0.9, 0.95),
        weight_decay=0.0,
        advantage_std_floor=0.1,
    )
    .evaluation(evaluation_duration=32)
    # All in one process: with a model this small, actors cost more than they bring.
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
    .debugging(seed=0)
)

stop = {"training_iteration": 30}
