"""PPO on WebShop, Qwen2.5-7B-Instruct: a baseline of GiGPO's paper.

    hf download Qwen/Qwen2.5-7B-Instruct --local-dir models/Qwen2.5-7B-Instruct
    rllib train file tuned_examples/ppo/webshop_qwen25_7b.py

Source: GiGPO's paper, Feng et al. 2025, arXiv 2505.10978, where PPO is a baseline.
Hardware: 4 GPUs of 80 GB in the paper, with the weights sharded over them. A critic is not sharded here: learners hold
whole copies, 255 GiB each before activations, and `rllib plan` refuses this setting.
Expected: 81.4 and 68.7 % score and success on WebShop (GiGPO's paper).
Run here: no, for want of GPUs; the tests run it with a tiny model.
"""

from rllib_gigpo.algorithms.ppo import PPOConfig
from rllib_gigpo.tuned_examples.papers.webshop import STOP, webshop

config = webshop(PPOConfig(), model="Qwen2.5-7B-Instruct", num_gpus=4).training(critic_lr=1e-5)

stop = STOP
