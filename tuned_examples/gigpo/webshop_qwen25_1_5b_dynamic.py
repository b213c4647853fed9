"""GiGPO_dynamic on WebShop, Qwen2.5-1.5B-Instruct: dynamic sampling and a higher upper clip.

    hf download Qwen/Qwen2.5-1.5B-Instruct --local-dir models/Qwen2.5-1.5B-Instruct
    rllib train file tuned_examples/gigpo/webshop_qwen25_1_5b_dynamic.py

Source: GiGPO's paper, Feng et al. 2025, arXiv 2505.10978.
Hardware: 2 GPUs of 80 GB as in the paper.
Expected: 87.5 and 75.0 % score and success on WebShop (the paper).
Run here: no, for want of GPUs; the tests run it with a tiny model.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.tuned_examples.papers.webshop import STOP, webshop

config = webshop(GiGPOConfig(), model="Qwen2.5-1.5B-Instruct", num_gpus=2).training(
    advantage_norm="mean", dynamic_sampling=True, clip_low=0.2, clip_high=0.28
)

stop = STOP
