"""YAML that is data only, with two of its traps closed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]


class _StrictLoader(yaml.SafeLoader):
    """`yaml.SafeLoader` that reads 3e-4 as a number and refuses a key that stands twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            # Keys that are no scalars have a list of nodes as value; Python refuses them anyway.
            name = (key.tag, str(key.value))
            if name in seen:
                problem = f"key {key.value!r} stands twice"
                raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key.start_mark)
            seen.add(name)
        return dict(super().construct_mapping(node, deep=deep))


# PyYAML follows YAML 1.1, where a number with an exponent needs a dot and a sign: to it 3e-4 is a string.
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def load_yaml(path: Path) -> Any:
    """The document in the file.

    Raises:
        ValueError: The file is not YAML, or not text; the message names the line.
    """
    try:
        # The subclass constructs what SafeLoader does: no Python objects.
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_StrictLoader)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8: {error.reason} at byte {error.start}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        raise ValueError(f"{path}{line}: not YAML: {problem}") from error
