"""A model directory that lacks something is refused with one clear error before anything is loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rllib_gigpo.broken_packages import check_torchvision
from rllib_gigpo.rl_modules.model_directory import validate_model_directory

pytestmark = pytest.mark.unit


@pytest.fixture
def model_directory(tmp_path: Path) -> Path:
    """The files of a complete model directory; validation reads the names, and the chat template."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    (tmp_path / "model.safetensors").write_bytes(b"")
    return tmp_path


def test_a_complete_directory_is_accepted(model_directory: Path) -> None:
    validate_model_directory(model_directory)
    validate_model_directory(str(model_directory))


def test_the_chat_template_may_be_a_file_of_its_own(model_directory: Path) -> None:
    (model_directory / "tokenizer_config.json").write_text("{}")
    (model_directory / "chat_template.jinja").write_text("{{ messages }}")
    validate_model_directory(model_directory)


def test_sharded_weights_are_accepted(model_directory: Path) -> None:
    (model_directory / "model.safetensors").rename(model_directory / "model-00001-of-00002.safetensors")
    validate_model_directory(model_directory)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda d: (d / "config.json").unlink(), "no config.json"),
        (lambda d: (d / "tokenizer.json").unlink(), "no tokenizer"),
        (lambda d: (d / "tokenizer_config.json").unlink(), "no chat template"),
        (lambda d: (d / "tokenizer_config.json").write_text('{"chat_template": null}'), "no chat template"),
        (lambda d: (d / "tokenizer_config.json").write_text("{"), "not valid JSON"),
        (lambda d: (d / "model.safetensors").unlink(), "no weights"),
        (lambda d: (d / "model.safetensors").rename(d / "pytorch_model.bin"), "pickle"),
    ],
)
def test_what_is_missing_is_named_with_its_directory_and_a_fix(
    model_directory: Path, break_it: Callable[[Path], object], message: str
) -> None:
    break_it(model_directory)
    with pytest.raises(ValueError, match=message) as error:
        validate_model_directory(model_directory)
    assert str(model_directory) in str(error.value)
    assert "save" in str(error.value), "the message says what to do"


@pytest.mark.parametrize("path", ["Qwen/Qwen2.5-0.5B-Instruct", "/nowhere/at/all"])
def test_a_hub_id_or_a_missing_directory_is_not_resolved_silently(path: str) -> None:
    with pytest.raises(ValueError, match="not a directory") as error:
        validate_model_directory(path)
    assert path in str(error.value)
    assert "hf download" in str(error.value)


def test_validation_imports_neither_torch_nor_transformers(model_directory: Path) -> None:
    code = (
        "import sys\n"
        "from rllib_gigpo.rl_modules.model_directory import validate_model_directory\n"
        f"validate_model_directory({str(model_directory)!r})\n"
        "assert not {'torch', 'transformers', 'ray'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "failure", ["RuntimeError('operator torchvision::nms does not exist')", "OSError('libcudart.so.13')"]
)
def test_a_torchvision_that_does_not_load_is_reported_with_the_command_that_removes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text(f"raise {failure}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    with pytest.raises(ImportError, match="pip uninstall -y torchvision torchaudio") as error:
        check_torchvision()
    assert failure.split("'")[1] in str(error.value)


def test_nothing_is_reported_where_the_companions_are_absent_or_load() -> None:
    check_torchvision()
