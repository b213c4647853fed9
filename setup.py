"""Build guard; everything else is in pyproject.toml.

`rllib_gigpo/algorithms` and its three siblings are symbolic links to the top-level folders. An archive or a checkout
without symbolic links (zip files, git with core.symlinks=false) turns them into small text files, and a build would
silently leave those packages out.
"""

from pathlib import Path

from setuptools import setup

LINKS = ("algorithms", "env_adapters", "tuned_examples", "vlm")

_package = Path(__file__).resolve().parent / "rllib_gigpo"
_broken = [name for name in LINKS if not (_package / name / "__init__.py").is_file()]
if _broken:
    raise SystemExit(
        f"rllib-gigpo cannot be built: {', '.join(f'rllib_gigpo/{name}' for name in _broken)} must be a folder or a "
        f"symbolic link to the top-level folder of the same name. This source tree lost its symbolic links: clone with "
        f"git (on Windows: git clone -c core.symlinks=true), or make them: "
        + "; ".join(f"ln -sfn ../{name} rllib_gigpo/{name}" for name in _broken)
    )

setup()
