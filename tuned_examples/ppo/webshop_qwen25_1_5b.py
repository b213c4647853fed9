"""PPO on WebShop, Qwen2.5-1.5B-Instruct: a baseline of GiGPO's paper.

    hf download Qwen/Qwen2.5-1.5B-Instruct --local-dir models/Qwen2.5-1.5B-Instruct
    rllib train file tuned_examples/ppo/webshop_qwen25_1_5b.py

Source: GiGPO's paper, Feng et al. 2025, arXiv 2505.10978, where PPO is a baseline.
Hardware: 2 GPUs of 80 GB as in the paper.
Expected: 73.8 and 51.5 % score and success on WebShop (GiGPO's paper).
Run here: no, for want of GPUs; the tests run it with a tiny model.
"""

from rllib_gigpo.algorithms.ppo import PPOConfig
from rllib_gigpo.tuned_examples.papers.webshop import STOP, webshop

config = webshop(PPOConfig(), model="Qwen2.5-1.5B-Instruct", num_gpus=2).training(critic_lr=1e-5)

stop = STOP
