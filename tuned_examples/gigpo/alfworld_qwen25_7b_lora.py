"""GiGPO w/ std on ALFWorld, LoRA on Qwen2.5-7B-Instruct.

    hf download Qwen/Qwen2.5-7B-Instruct --local-dir models/Qwen2.5-7B-Instruct
    rllib train file tuned_examples/gigpo/alfworld_qwen25_7b_lora.py

Source: GiGPO's paper, Feng et al. 2025, arXiv 2505.10978, and its published script.
Hardware: 4 GPUs of 80 GB.
Expected: not published as a number; with all weights 90.8 % of ALFWorld (the paper).
Run here: no, for want of GPUs; the tests run it with a tiny model.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.tuned_examples.papers.alfworld import STOP, alfworld

config = alfworld(GiGPOConfig(), model="Qwen2.5-7B-Instruct", num_gpus=4, lora_rank=64, lora_alpha=64).training(
    advantage_norm="std", lr=3e-6, kl_coeff=0.0
)

stop = STOP
