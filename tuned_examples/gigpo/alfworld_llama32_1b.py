"""GiGPO w/ std on ALFWorld, Llama-3.2-1B-Instruct: the setting of Qwen2.5-1.5B-Instruct with another model.

    hf download meta-llama/Llama-3.2-1B-Instruct --local-dir models/Llama-3.2-1B-Instruct
    rllib train file tuned_examples/gigpo/alfworld_llama32_1b.py

Source: GiGPO's paper, Feng et al. 2025, arXiv 2505.10978, with another model.
Hardware: 2 GPUs of 80 GB.
Expected: no published number.
Run here: no, for want of GPUs; the tests run it with a tiny model.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.tuned_examples.papers.alfworld import STOP, alfworld

config = alfworld(GiGPOConfig(), model="Llama-3.2-1B-Instruct", num_gpus=2).training(advantage_norm="std")

stop = STOP
