"""Catalogues on the disk: built once for a content of the data files, whoever needs one first, and then shared."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from rllib_gigpo.env_adapters.webshop.catalogue import Catalogue
from rllib_gigpo.env_adapters.webshop.catalogue_building import build_from_files, build_generated
from rllib_gigpo.env_adapters.webshop.data_files import DataFiles

logger = logging.getLogger(__name__)

CACHE_VARIABLE = "WEBSHOP_CACHE"
# Of what `write_catalogue` and `SearchIndex` write: raised where what an earlier version wrote would not do.
_FORMAT = 1


def catalogue_of(source: DataFiles | tuple[int, str], cache_folder: Path) -> Catalogue:
    """The catalogue of these files, or of so many made-up products with goals of that kind.

    Of one content there is one object in a process; a forked process makes its own.
    """
    if isinstance(source, DataFiles):
        return _from_files(source, source.state(), cache_folder, os.getpid())
    return _generated(*source, os.getpid())


def default_cache_folder() -> Path:
    """$WEBSHOP_CACHE, else a folder in the user's cache."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named).expanduser()
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "rllib_gigpo" / "webshop"


@cache
def _generated(num_products: int, goal_kind: str, process: int) -> Catalogue:
    return build_generated(num_products, goal_kind)


@cache
def _from_files(files: DataFiles, state: tuple[object, ...], cache_folder: Path, process: int) -> Catalogue:
    folder = cache_folder / f"{_FORMAT}-{_content_hash(files, state, cache_folder)}"
    if not folder.is_dir():
        cache_folder.mkdir(parents=True, exist_ok=True)
        logger.info("WebShop: products, goals and search index of %s are written to %s, once", files.items, folder)
        being_built = Path(tempfile.mkdtemp(prefix="being-built-", dir=cache_folder))
        try:
            build_from_files(files, being_built)
            _rename(being_built, folder)
        finally:
            shutil.rmtree(being_built, ignore_errors=True)
    return Catalogue.open(folder)


def _content_hash(files: DataFiles, state: tuple[object, ...], cache_folder: Path) -> str:
    """Remembered in the cache as long as no file changes: reading gigabytes takes seconds in each process."""
    noted = cache_folder / "content_hashes" / hashlib.blake2b(repr(state).encode(), digest_size=16).hexdigest()
    if noted.is_file():
        return noted.read_text()
    content_hash = files.content_hash()
    noted.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=noted.parent, delete=False) as file:
        file.write(content_hash)
    os.replace(file.name, noted)
    return content_hash


def _rename(being_built: Path, folder: Path) -> None:
    """Puts a finished folder in its place, unless another process was faster."""
    try:
        being_built.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
