"""What two evaluations share that have played the same panel."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any


def panel_hash(env: str, env_config: Mapping[str, Any], tasks: Sequence[Any], first_observations: Sequence[Any]) -> str:
    """Equal for the same tasks of the same environment that start from the same observations.

    Args:
        env: Name of the environment.
        env_config: Its options.
        tasks: The panel.
        first_observations: For each task what was shown first: a text, or of several agents a text by agent; None where
            nothing was.
    """
    content = [env, dict(env_config), list(tasks), list(first_observations)]
    return hashlib.blake2b(json.dumps(content, default=repr, sort_keys=True).encode(), digest_size=8).hexdigest()
