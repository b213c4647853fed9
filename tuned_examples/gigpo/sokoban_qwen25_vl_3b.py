"""GiGPO w/o std on pictures of Sokoban, 6 × 6, Qwen2.5-VL-3B-Instruct.

    hf download Qwen/Qwen2.5-VL-3B-Instruct --local-dir models/Qwen2.5-VL-3B-Instruct
    rllib train file tuned_examples/gigpo/sokoban_qwen25_vl_3b.py

Source: GiGPO's paper, Feng et al. 2025, arXiv 2505.10978.
Hardware: 2 GPUs of 80 GB.
Expected: 81.0 % success on Sokoban (the paper, whose levels come from another generator).
Run here: no, for want of GPUs; the tests run it with a tiny model.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.tuned_examples.papers.image_agents import image_agent

# The published 16 pixels a cell are enlarged to 256 × 256 there, of which the model's image processor makes 252 × 252.
# About 2,500 rows of an iteration, in mini-batches of 64.
config = image_agent(GiGPOConfig(), "Sokoban", {"cell_pixels": 42, "max_steps": 15}, groups=32, num_minibatches=40)

stop = {"training_iteration": 150}
