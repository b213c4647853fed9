"""GiGPO on WebShop with Qwen2.5-1.5B-Instruct: the setting of the GiGPO paper (Feng et al. 2025). Nobody here ran it.

    pip install "rllib-gigpo[webshop,vllm]"
    export WEBSHOP_DATA=<folder with items_shuffle_1000.json and items_ins_v2_1000.json>
    export QWEN2_5_1_5B=<folder of Qwen2.5-1.5B-Instruct>
    rllib train file tuned_examples/gigpo/webshop_qwen2_5_1_5b.py

Source: the paper's appendix on hyperparameters (https://arxiv.org/abs/2505.10978), and what its code, verl-agent, sets
beside them: 16 groups of 8, 15 steps, the last two turns in the prompt, prompts of 4096 and responses of 512 tokens,
learning rate 1e-6, KL 0.01 to the first model, discount 0.95, 150 iterations, and the 1000 products of WebShop's small
files. "Without std" is the better of the paper's two variants.
Hardware: two GPUs of 80 GB, as in the paper; one of them samples, one learns. All in float32, where the published code
samples in bfloat16 and learns in both.
Expected, in the paper's Table 1: score 0.835, success 0.674 on the validation goals. They are not the same goals here:
the published code shuffles them anew for each worker, and nine in ten of its validation goals are trained on too.
Mini-batches are a count here, 16, and 64 step rows there, which is as many with about 1000 rows in an iteration.
"""

import os

from rllib_gigpo.algorithms.gigpo import GiGPOConfig

config = (
    GiGPOConfig()
    .environment("WebShop", env_config={"num_products": 1000, "goals": "synthetic", "max_steps": 15})
    # The optimizer steps on these weights, and in bfloat16 steps of 1e-6 are rounded away.
    .language_model(model_path=os.environ.get("QWEN2_5_1_5B", "Qwen2.5-1.5B-Instruct"), model_dtype="float32")
    .generation(engine="vllm", max_prompt_tokens=4096, max_response_tokens=512, temperature=1.0)
    .training(
        group_size=8,
        groups_per_iteration=16,
        num_minibatches=16,
        lr=1e-6,
        gamma=0.95,
        step_advantage_weight=1.0,
        advantage_norm="mean",
        invalid_action_penalty=0.1,
        kl_coeff=0.01,
        kl_estimator="k3",
    )
    .evaluation(evaluation_interval=5, evaluation_duration=128, evaluation_config={"temperature": 0.4})
    .env_runners(num_env_runners=1, num_gpus_per_env_runner=1, env_workers=8)
    .learners(num_learners=1, num_gpus_per_learner=1)
    .debugging(seed=0)
)

stop = {"training_iteration": 150}
