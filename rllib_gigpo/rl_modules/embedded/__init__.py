"""Tiny language models that ship with an environment, so that everything runs on one CPU without a download."""

from rllib_gigpo.rl_modules.embedded.build import build_causal_lm, save_model
from rllib_gigpo.rl_modules.embedded.imitation import PictureRow, encode_picture_prompt, imitate, imitate_pictures
from rllib_gigpo.rl_modules.embedded.naming import NamedPicture, teach_to_name
from rllib_gigpo.rl_modules.embedded.tokenizer import build_tokenizer
from rllib_gigpo.rl_modules.embedded.transplant import transplant
from rllib_gigpo.rl_modules.embedded.vision import (
    build_image_processor,
    build_vision_language_model,
    save_vision_language_model,
)
from rllib_gigpo.rl_modules.embedded.warm_start import warm_start

__all__ = [
    "NamedPicture",
    "PictureRow",
    "build_causal_lm",
    "build_image_processor",
    "build_tokenizer",
    "build_vision_language_model",
    "encode_picture_prompt",
    "imitate",
    "imitate_pictures",
    "save_model",
    "save_vision_language_model",
    "teach_to_name",
    "transplant",
    "warm_start",
]
