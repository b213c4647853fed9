"""GiGPO with an adapter on SmolLM2-135M-Instruct, a pretrained model, in EZPoints.

    make smollm2
    rllib train file tuned_examples/gigpo/ezpoints_smollm2_lora.py

Worked examples, as turns of the conversation, show the form of a reply and how a formula grows. For all weights instead
of an adapter: --config '{"lora_rank": null, "lora_alpha": null, "lr": 2e-5}'. How far this gets has not been measured.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig

PROMPT = "Make 12 with both numbers, one part a reply.\n{{ observation }}"
EXAMPLES = [
    ("Numbers: 7 5. Formula: empty", "<think>7 + 5</think><action>7</action>"),
    ("Numbers: 3 4. Formula: 3", "<think>3 * 4</think><action>*</action>"),
    ("Numbers: 7 5. Formula: 7 +", "<think>7 + 5</think><action>5</action>"),
    ("Numbers: 3 4. Formula: 3 * 4", "<think>3 * 4</think><action>=</action>"),
]

config = (
    GiGPOConfig()
    .environment("EZPoints")
    .language_model(model_path="models/smollm2-135m-instruct", lora_rank=32, lora_alpha=64)
    .agent_format(prompt_template=PROMPT, examples=EXAMPLES)
    .generation(max_prompt_tokens=256, max_response_tokens=24)
    # Without a floor, groups that differ in their invalid actions alone would weigh as much as one with a win.
    .training(
        group_size=8, groups_per_iteration=8, num_minibatches=1, lr=2e-4, weight_decay=0.0, advantage_std_floor=1.0
    )
    .evaluation(evaluation_duration=64)
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
    .debugging(seed=0)
)

stop = {"training_iteration": 100}
