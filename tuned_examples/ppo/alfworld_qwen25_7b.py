"""PPO on ALFWorld, Qwen2.5-7B-Instruct: a baseline of GiGPO's paper.

    hf download Qwen/Qwen2.5-7B-Instruct --local-dir models/Qwen2.5-7B-Instruct
    rllib train file tuned_examples/ppo/alfworld_qwen25_7b.py

Source: GiGPO's paper, Feng et al. 2025, arXiv 2505.10978, where PPO is a baseline.
Hardware: 4 GPUs of 80 GB in the paper, with the weights sharded over them. A critic is not sharded here: learners hold
whole copies, 255 GiB each before activations, and `rllib plan` refuses this setting.
Expected: 80.4 % success on ALFWorld, all task types (GiGPO's paper).
Run here: no, for want of GPUs; the tests run it with a tiny model.
"""

from rllib_gigpo.algorithms.ppo import PPOConfig
from rllib_gigpo.tuned_examples.papers.alfworld import STOP, alfworld

config = alfworld(PPOConfig(), model="Qwen2.5-7B-Instruct", num_gpus=4).training(critic_lr=1e-5)

stop = STOP
