"""Seeds that depend on their names alone: equal parts give an equal seed in any process, on any machine."""

from __future__ import annotations

import hashlib
import json


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed from integers and strings, independent of `PYTHONHASHSEED` and of every global generator.

    Args:
        parts: What the seed is for, for example `(run_seed, "sampling", group_id, member, step)`.
    """
    digest = hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
