"""DAPO on WebShop, Qwen2.5-1.5B-Instruct.

    hf download Qwen/Qwen2.5-1.5B-Instruct --local-dir models/Qwen2.5-1.5B-Instruct
    rllib train file tuned_examples/dapo/webshop_qwen25_1_5b.py

Source: GiGPO's paper, Feng et al. 2025, arXiv 2505.10978, where DAPO is a baseline.
Hardware: 2 GPUs of 80 GB as in the paper.
Expected: 84.6 and 66.1 % score and success on WebShop (GiGPO's paper).
Run here: no, for want of GPUs; the tests run it with a tiny model.
"""

from rllib_gigpo.algorithms.dapo import DAPOConfig
from rllib_gigpo.tuned_examples.papers.webshop import STOP, webshop

# The penalty on long responses is DAPO's own; the baseline has dynamic sampling and the higher upper clip.
config = webshop(DAPOConfig(), model="Qwen2.5-1.5B-Instruct", num_gpus=2).training(
    kl_coeff=0.0, overlong_penalty_buffer=0
)

stop = STOP
