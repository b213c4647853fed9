"""GRPO on WebShop, Qwen2.5-1.5B-Instruct: a baseline of GiGPO's paper.

    hf download Qwen/Qwen2.5-1.5B-Instruct --local-dir models/Qwen2.5-1.5B-Instruct
    rllib train file tuned_examples/grpo/webshop_qwen25_1_5b.py

Source: GiGPO's paper, Feng et al. 2025, arXiv 2505.10978, where GRPO is a baseline.
Hardware: 2 GPUs of 80 GB as in the paper.
Expected: 75.8 and 56.8 % score and success on WebShop (GiGPO's paper).
Run here: no, for want of GPUs; the tests run it with a tiny model.
"""

from rllib_gigpo.algorithms.grpo import GRPOConfig
from rllib_gigpo.tuned_examples.papers.webshop import STOP, webshop

config = webshop(GRPOConfig(), model="Qwen2.5-1.5B-Instruct", num_gpus=2)

stop = STOP
