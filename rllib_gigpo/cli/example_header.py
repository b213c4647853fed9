"""What the header of a tuned example tells: its docstring, read without running the file."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rllib_gigpo import registry

_FIELDS = ("Source", "Hardware", "Expected", "Run here")
_FIELD = re.compile(rf"^({'|'.join(_FIELDS)}): (.*?)(?=^(?:{'|'.join(_FIELDS)}): |\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class ExampleHeader:
    """One tuned example.

    Attributes:
        id: "algorithm/environment_model…".
        description: The first line.
        source: Where the setting is from; "" for one of our own, which learns on a CPU.
        hardware: What it takes; "" for a CPU.
        expected: What it reaches, and who says so; "" where the description tells.
        run_here: Whether anyone here ran it; "" where the description tells.
    """

    id: str
    description: str
    source: str = ""
    hardware: str = ""
    expected: str = ""
    run_here: str = ""

    @property
    def kind(self) -> str:
        """ "paper" for a setting of a paper, "tiny" for one that learns on a CPU."""
        return "paper" if self.source else "tiny"

    @property
    def algorithm(self) -> str:
        """The folder's name, such as "gigpo"."""
        return self.id.partition("/")[0]

    @property
    def environment(self) -> str:
        """In small letters, as in the id: "alfworld"."""
        return self.id.partition("/")[2].partition("_")[0]


def example_file(example: str) -> Path:
    """The file of the example of that id. Raises ValueError where there is none."""
    module = registry.example_module(example)
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ValueError(f"the module {module} of example {example!r} is not there; is its distribution whole?")
    return Path(spec.origin)


def example_header(example: str) -> ExampleHeader:
    """The header of the example of that id."""
    docstring = ast.get_docstring(ast.parse(example_file(example).read_text())) or ""
    fields = {name: " ".join(text.split()).rstrip(".") for name, text in _FIELD.findall(docstring)}
    return ExampleHeader(
        id=example,
        description=docstring.partition("\n")[0],
        **{name.lower().replace(" ", "_"): text for name, text in fields.items()},
    )
