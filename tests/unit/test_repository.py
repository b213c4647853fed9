"""The shape of the repository: its links, its import names, and how light the package is to import."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
LINKS = ("algorithms", "env_adapters", "tuned_examples", "vlm")
CODE_FOLDERS = ("rllib_gigpo", *LINKS, "tests", "benchmarks", "scripts")


def _python_files() -> Iterator[Path]:
    """Every file once: without following the links."""
    for folder in CODE_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            is_behind_link = folder == "rllib_gigpo" and path.relative_to(ROOT / folder).parts[0] in LINKS
            if not is_behind_link:
                yield path


def _imports_that_may_be_wrong(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    # Parsing every file would take a second.
    if not re.search(rf"\b(import|from)\s+({'|'.join(LINKS)})\b", text):
        return
    for node in ast.walk(ast.parse(text, str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            yield node.module


@pytest.mark.parametrize("name", LINKS)
def test_the_link_is_a_symbolic_link_to_the_folder_at_the_top(name: str) -> None:
    link = ROOT / "rllib_gigpo" / name
    assert link.is_symlink()
    assert link.is_dir()
    assert link.resolve() == ROOT / name
    assert not link.readlink().is_absolute()


def test_no_file_imports_past_the_package_name() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in _python_files()
        for module in _imports_that_may_be_wrong(path)
        if module.split(".")[0] in LINKS
    ]
    assert not wrong, "write rllib_gigpo.<folder> instead: " + "; ".join(wrong)


def test_every_folder_of_code_is_a_package_and_so_gets_into_the_wheel() -> None:
    folders = {path.parent for folder in ("rllib_gigpo", *LINKS) for path in (ROOT / folder).rglob("*.py")}
    missing = [str(folder.relative_to(ROOT)) for folder in sorted(folders) if not (folder / "__init__.py").exists()]
    assert not missing


def test_importing_the_package_imports_neither_ray_nor_torch() -> None:
    code = "import sys, rllib_gigpo; print(*{'ray', 'torch', 'transformers', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_experts_bring_no_torch_which_would_hide_what_an_environment_keeps_in_memory() -> None:
    modules = ", ".join(f"rllib_gigpo.env_adapters.{name}.expert" for name in ("household", "search_qa", "sokoban"))
    code = f"import sys, {modules}; print(*{{'torch', 'transformers', 'ray.rllib'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_build_stops_where_a_link_is_a_text_file(tmp_path: Path) -> None:
    # What unpacking an archive without symbolic links leaves behind.
    package = tmp_path / "rllib_gigpo"
    package.mkdir()
    (tmp_path / "setup.py").write_text((ROOT / "setup.py").read_text())
    for name in LINKS:
        (package / name).mkdir()
        (package / name / "__init__.py").touch()
    (package / "vlm" / "__init__.py").unlink()
    (package / "vlm").rmdir()
    (package / "vlm").write_text("../vlm")
    done = subprocess.run([sys.executable, "setup.py", "--version"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "cannot be built: rllib_gigpo/vlm must be a folder" in done.stderr
