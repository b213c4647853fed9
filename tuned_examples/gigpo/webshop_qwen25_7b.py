"""GiGPO w/o std on WebShop, Qwen2.5-7B-Instruct.

    hf download Qwen/Qwen2.5-7B-Instruct --local-dir models/Qwen2.5-7B-Instruct
    rllib train file tuned_examples/gigpo/webshop_qwen25_7b.py

Source: GiGPO's paper, Feng et al. 2025, arXiv 2505.10978.
Hardware: 4 GPUs of 80 GB as in the paper; the model is spread over three of them, the fourth samples.
Expected: 86.2 and 75.2 % score and success on WebShop (the paper).
Run here: no, for want of GPUs; the tests run it with a tiny model.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.tuned_examples.papers.webshop import STOP, webshop

config = webshop(GiGPOConfig(), model="Qwen2.5-7B-Instruct", num_gpus=4).training(advantage_norm="mean")

stop = STOP
