"""GiGPO w/o std on ALFWorld, Qwen2.5-1.5B-Instruct.

    hf download Qwen/Qwen2.5-1.5B-Instruct --local-dir models/Qwen2.5-1.5B-Instruct
    rllib train file tuned_examples/gigpo/alfworld_qwen25_1_5b_mean.py

Source: GiGPO's paper, Feng et al. 2025, arXiv 2505.10978.
Hardware: 2 GPUs of 80 GB as in the paper.
Expected: 86.1 % success on ALFWorld, all task types (the paper).
Run here: no, for want of GPUs; the tests run it with a tiny model.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.tuned_examples.papers.alfworld import STOP, alfworld

config = alfworld(GiGPOConfig(), model="Qwen2.5-1.5B-Instruct", num_gpus=2).training(advantage_norm="mean")

stop = STOP
