"""GiGPO on all weights of SmolLM2-135M-Instruct, a pretrained model, in NumberLine, on a CPU.

    make smollm2
    rllib train file tuned_examples/gigpo/numberline_smollm2.py

As `numberline_smollm2_lora.py`, without an adapter. Weights, gradients and Adam's moments take 2.2 GB. How far
this gets has not been measured.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.tuned_examples.gigpo.numberline_smollm2_lora import EXAMPLES

config = (
    GiGPOConfig()
    .environment("NumberLine", env_config={"max_position": 2, "max_steps": 2})
    .language_model(model_path="models/smollm2-135m-instruct")
    .agent_format(prompt_template="{{ observation }}", examples=EXAMPLES)
    .generation(max_prompt_tokens=128, max_response_tokens=24)
    .training(group_size=8, groups_per_iteration=12, num_minibatches=4)
    # A tenth of the adapter's rate.
    .training(lr=2e-5, weight_decay=0.0, entropy_coeff=0.01)
    .evaluation(evaluation_duration=64)
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
    .debugging(seed=0)
)

stop = {"training_iteration": 40}
