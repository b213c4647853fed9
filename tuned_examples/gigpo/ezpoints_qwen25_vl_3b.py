"""GiGPO w/o std on pictures of EZPoints, Qwen2.5-VL-3B-Instruct.

    hf download Qwen/Qwen2.5-VL-3B-Instruct --local-dir models/Qwen2.5-VL-3B-Instruct
    rllib train file tuned_examples/gigpo/ezpoints_qwen25_vl_3b.py

Source: GiGPO's paper, Feng et al. 2025, arXiv 2505.10978.
Hardware: 2 GPUs of 80 GB.
Expected: 100 % success on EZPoints (the paper).
Run here: no, for want of GPUs; the tests run it with a tiny model.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.tuned_examples.papers.image_agents import image_agent

# About 600 rows of an iteration, in mini-batches of 128. The reply is JSON, as in the paper.
config = image_agent(GiGPOConfig(), "EZPoints", {"max_steps": 8}, groups=16, num_minibatches=5).agent_format(
    prompt_template="rllib_gigpo.env_adapters.gym_cards.prompts:EZPOINTS_JSON_PROMPT", response_parser="json_action"
)

stop = {"training_iteration": 100}
