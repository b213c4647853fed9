"""Wheel and source distribution: what a user gets who installs one of them into an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from rllib_gigpo import registry

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
PARTS = (
    "rllib_gigpo.algorithms.gigpo.gigpo",
    "rllib_gigpo.algorithms.ppo.ppo",
    "rllib_gigpo.env_adapters.gym_cards.ezpoints",
    "rllib_gigpo.tuned_examples.gigpo.ezpoints_text_tiny",
    "rllib_gigpo.vlm",
    "rllib_gigpo.cli.main",
    "rllib_gigpo.testing",
)


def run(*command: str, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both, built from what git knows; the wheel from the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    source = folder / "source"
    names = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in filter(None, names):
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            target.symlink_to((ROOT / name).readlink())
        elif (ROOT / name).is_file():
            target.write_bytes((ROOT / name).read_bytes())
    # By the hooks that installers call, and so without their isolated environments, which take a network.
    hook = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
    run(sys.executable, "-c", hook, "build_sdist", str(folder), cwd=source)
    (sdist,) = folder.glob("*.tar.gz")
    unpacked = folder / "unpacked"
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    run(sys.executable, "-c", hook, "build_wheel", str(folder), cwd=unpacked / sdist.name.removesuffix(".tar.gz"))
    return folder


def test_both_hold_all_parts_and_the_embedded_models(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    (sdist,) = distributions.glob("*.tar.gz")
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    for part in ("algorithms/gigpo/gigpo.py", "env_adapters/household/household.py", "vlm/__init__.py"):
        assert f"rllib_gigpo/{part}" in in_wheel
        assert part in in_sdist or f"rllib_gigpo/{part}" in in_sdist
    models = "env_adapters/gym_cards/embedded_models/ezpoints/model.safetensors"
    assert f"rllib_gigpo/{models}" in in_wheel
    assert "rllib_gigpo/report/page/report.js" in in_wheel


@pytest.mark.parametrize("kind", ["whl", "tar.gz"])
def test_it_is_installed_into_an_empty_environment(distributions: Path, tmp_path: Path, kind: str) -> None:
    """The dependencies are those of this environment, by a path file: to install them again takes a network."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    (distribution,) = distributions.glob(f"*.{kind}")
    folder = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip())
    # Behind the environment's own folder: the package itself comes from what was installed.
    (folder / "dependencies.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    # Python 3.11 puts an old one there.
    run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "setuptools", cwd=tmp_path)
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", str(distribution), cwd=tmp_path)
    where = run(python, "-c", "import rllib_gigpo; print(rllib_gigpo.__file__)", cwd=tmp_path).strip()
    assert Path(where).is_relative_to(folder)
    listed = json.loads(run(str(tmp_path / "venv" / "bin" / "rllib"), "example", "list", "--json", cwd=tmp_path))
    assert [header["id"] for header in listed] == registry.example_names()
    run(python, "-c", "; ".join(f"import {part}" for part in PARTS), cwd=tmp_path)
