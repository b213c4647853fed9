"""GRPO on ALFWorld, Qwen2.5-7B-Instruct: a baseline of GiGPO's paper.

    hf download Qwen/Qwen2.5-7B-Instruct --local-dir models/Qwen2.5-7B-Instruct
    rllib train file tuned_examples/grpo/alfworld_qwen25_7b.py

Source: GiGPO's paper, Feng et al. 2025, arXiv 2505.10978, where GRPO is a baseline.
Hardware: 4 GPUs of 80 GB as in the paper; the model is spread over three of them, the fourth samples.
Expected: 77.6 % success on ALFWorld, all task types (GiGPO's paper).
Run here: no, for want of GPUs; the tests run it with a tiny model.
"""

from rllib_gigpo.algorithms.grpo import GRPOConfig
from rllib_gigpo.tuned_examples.papers.alfworld import STOP, alfworld

config = alfworld(GRPOConfig(), model="Qwen2.5-7B-Instruct", num_gpus=4)

stop = STOP
