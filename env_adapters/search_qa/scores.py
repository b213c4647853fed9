"""How right an answer is: exact match and F1, as for SQuAD (Rajpurkar et al. 2016) and in Search-R1."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(answer: str) -> str:
    """In lower case, without ASCII punctuation and the articles a, an, the, white space collapsed."""
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, golden_answers: Sequence[str]) -> bool:
    """Whether the answer equals one of the golden ones, both normalized."""
    return any(normalized(answer) == normalized(golden) for golden in golden_answers)


def f1_score(answer: str, golden_answers: Sequence[str]) -> float:
    """Harmonic mean of precision and recall of the answer's words, 0 to 1; of the golden answers, the best counts."""
    return max((_f1(normalized(answer).split(), normalized(golden).split()) for golden in golden_answers), default=0.0)


def _f1(words: list[str], golden: list[str]) -> float:
    if not words or not golden:
        return float(words == golden)
    common = sum((Counter(words) & Counter(golden)).values())
    return 2 * common / (len(words) + len(golden))
