"""GiGPO w/o std on WebShop, Qwen3-1.7B: the setting of Qwen2.5-1.5B-Instruct with another model.

    hf download Qwen/Qwen3-1.7B --local-dir models/Qwen3-1.7B
    rllib train file tuned_examples/gigpo/webshop_qwen3_1_7b.py

Source: GiGPO's paper, Feng et al. 2025, arXiv 2505.10978, with another model.
Hardware: 2 GPUs of 80 GB.
Expected: no published number.
Run here: no, for want of GPUs; the tests run it with a tiny model.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.tuned_examples.papers.webshop import STOP, webshop

config = webshop(GiGPOConfig(), model="Qwen3-1.7B", num_gpus=2).training(advantage_norm="mean")

stop = STOP
