"""GiGPO on small games of ALFWorld with a tiny language model of another game: how it is set up, on a CPU.

    pip install "rllib-gigpo[alfworld]"
    rllib train file tuned_examples/gigpo/alfworld_text_tiny.py

ALFWorld comes with no model of its own. This is Household's, which does not know ALFWorld's prompt, and whose
commands lack the numbers of ALFWorld's: it wins nothing, and from games of which none is won nothing is learned. Name
the directory of a larger model as `model_path`, with longer responses and a learning rate of about 1e-6. Without
`env_config`, ALFWorld is as in the papers, with the data that $ALFWORLD_DATA names. The tests run three small
iterations of it; more was not tried.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path

config = (
    GiGPOConfig()
    .environment(
        "ALFWorld",
        env_config={
            # Made up on the spot, whatever data there is: the smallest rooms, and the simplest of the six tasks.
            "data": "",
            "num_receptacles": 4,
            "num_objects": 2,
            "task_types": ["pick_and_place_simple"],
            "max_steps": 15,
            # By what is true in the game: "Nothing happens." would else be one anchor state, wherever it is said.
            "anchor_state": "game",
        },
    )
    .language_model(model_path=str(embedded_model_path("Household")))
    .generation(max_prompt_tokens=768, max_response_tokens=32)
    .training(
        group_size=8,
        groups_per_iteration=8,
        num_minibatches=4,
        # Far above what suits a model of billions of parameters: this one has 0.4 million.
        lr=5e-4,
        adam_betas=(0.9, 0.95),
        weight_decay=0.0,
        advantage_std_floor=1.0,
    )
    .evaluation(evaluation_duration=64)
    # All in one process: with a model this small, actors cost more than they bring.
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
    .debugging(seed=0)
)

stop = {"training_iteration": 30}
