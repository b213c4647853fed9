"""GAGPO on ALFWorld, Qwen2.5-7B-Instruct.

    hf download Qwen/Qwen2.5-7B-Instruct --local-dir models/Qwen2.5-7B-Instruct
    rllib train file tuned_examples/gagpo/alfworld_qwen25_7b.py

Source: GAGPO's paper, arXiv 2605.13217, which leaves out λ, γ, clip range, KL and group size: those are the defaults
here, and GiGPO's.
Hardware: 4 GPUs of 80 GB as in the paper; the model is spread over three of them, the fourth samples.
Expected: 95.6 % success on ALFWorld, all task types (the paper).
Run here: no, for want of GPUs; the tests run it with a tiny model.
"""

from rllib_gigpo.algorithms.gagpo import GAGPOConfig
from rllib_gigpo.tuned_examples.papers.alfworld import STOP, alfworld

config = alfworld(GAGPOConfig(), model="Qwen2.5-7B-Instruct", num_gpus=4)

stop = STOP
