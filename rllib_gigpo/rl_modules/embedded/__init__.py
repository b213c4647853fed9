"""Tiny language models that ship with an environment, so that everything runs on one CPU without a download."""

from rllib_gigpo.rl_modules.embedded.build import build_causal_lm, save_model
from rllib_gigpo.rl_modules.embedded.imitation import imitate
from rllib_gigpo.rl_modules.embedded.tokenizer import build_tokenizer
from rllib_gigpo.rl_modules.embedded.transplant import transplant
from rllib_gigpo.rl_modules.embedded.warm_start import warm_start

__all__ = ["build_causal_lm", "build_tokenizer", "imitate", "save_model", "transplant", "warm_start"]
