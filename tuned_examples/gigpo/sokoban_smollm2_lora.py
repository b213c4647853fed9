"""GiGPO with an adapter on SmolLM2-135M-Instruct, a pretrained model, on small levels of Sokoban.

    make smollm2
    rllib train file tuned_examples/gigpo/sokoban_smollm2_lora.py

Levels are won by one or two moves. Two worked examples, as turns of the conversation, show the form of a reply. For all
weights instead of an adapter: --config '{"lora_rank": null, "lora_alpha": null, "lr": 2e-5}'. How far this gets has
not been measured.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig

TASK = "Push the box X onto the target O: # wall, _ floor, P you. Answer up, down, left or right.\n"
RIGHT = """\
# # # # #
# _ _ _ #
# P X O #
# _ _ _ #
# # # # #"""
UP = """\
# # # # #
# _ O _ #
# _ X _ #
# _ P _ #
# # # # #"""
EXAMPLES = [
    (TASK + RIGHT, "<think>The box is right of me.</think><action>right</action>"),
    (TASK + UP, "<think>The box is above me.</think><action>up</action>"),
]

config = (
    GiGPOConfig()
    .environment(
        "Sokoban",
        env_config={
            "size": 5,
            "min_solution_length": 1,
            "max_solution_length": 2,
            "max_steps": 4,
            # Groups in which nobody wins would differ in nothing else, and move the weights.
            "step_reward": 0.0,
        },
    )
    .language_model(model_path="models/smollm2-135m-instruct", lora_rank=32, lora_alpha=64)
    .agent_format(prompt_template=TASK + "{{ observation }}", examples=EXAMPLES)
    .generation(max_prompt_tokens=400, max_response_tokens=32)
    .training(
        group_size=8, groups_per_iteration=8, num_minibatches=1, lr=2e-4, weight_decay=0.0, advantage_std_floor=1.0
    )
    .evaluation(evaluation_duration=64)
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
    .debugging(seed=0)
)

stop = {"training_iteration": 100}
