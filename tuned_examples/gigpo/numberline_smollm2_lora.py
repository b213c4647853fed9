"""GiGPO with an adapter on SmolLM2-135M-Instruct, a pretrained model, in NumberLine, on a CPU.

    make smollm2
    rllib train file tuned_examples/gigpo/numberline_smollm2_lora.py

Two worked examples, as turns of the conversation, show the form of a reply. The line has three numbers, so that the
whole game is to tell the greater number from the smaller one. Valid replies go from one in seven to 0.97 in 9
iterations, success from 0.11 to 1.0 in 15 (seed 0; docs/results.md); 40 iterations took 22 minutes of two busy cores.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig

EXAMPLES = [
    ("Target: 7. Current: 3", "<think>7 > 3</think><action>+</action>"),
    ("Target: 4. Current: 8", "<think>4 < 8</think><action>-</action>"),
]

config = (
    GiGPOConfig()
    .environment("NumberLine", env_config={"max_position": 2, "max_steps": 2})
    .language_model(model_path="models/smollm2-135m-instruct", lora_rank=32, lora_alpha=64)
    .agent_format(prompt_template="{{ observation }}", examples=EXAMPLES)
    .generation(max_prompt_tokens=128, max_response_tokens=24)
    # With four groups an iteration and one update, two or three of the six tasks decide, and the sign is that of most.
    .training(group_size=8, groups_per_iteration=12, num_minibatches=4)
    .training(lr=2e-4, weight_decay=0.0, entropy_coeff=0.01)
    .evaluation(evaluation_duration=64)
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
    .debugging(seed=0)
)

stop = {"training_iteration": 40}
