"""Takes this project's code along to Spark's workers.

A worker on a cluster, or behind Spark Connect, has Python and its packages but no copy of this project, and
`--py-files` is easily forgotten. So the functions that Spark sends to workers carry the sources with them as
an archive of some hundred kilobytes, and use it where `liftlog_jepsen` cannot be imported. This module
travels by value: it may use nothing of the project before `unpack` has run.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import lzma
import os
import stat
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

if TYPE_CHECKING:
    import pyarrow as pa

ALONGSIDE = ("liftlog/__init__.py", "liftlog/types.py", "liftlog/version.py")
"""What `liftlog_jepsen` needs of the rest of the project."""
AT_HOME = ("commands", "report", "generate", "bench")
"""Parts of `liftlog_jepsen` that no worker needs."""


@lru_cache(maxsize=1)
def bundle() -> bytes:
    """The sources that workers need, as a zip in LZMA; the same bytes for the same sources.

    Empty if they are no folder: what was imported from a zip is on the workers in the same way.
    """
    import liftlog
    import liftlog_jepsen

    home, beside = (Path(package.__file__ or "").resolve().parent for package in (liftlog_jepsen, liftlog))
    if not home.is_dir():
        return b""
    parts = [path for path in sorted(home.rglob("*.py")) if path.relative_to(home).parts[0] not in AT_HOME]
    sources = {path.relative_to(home.parent).as_posix(): path for path in parts}
    sources |= {name: beside.parent / name for name in ALONGSIDE}
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, path in sources.items():
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            archive.writestr(entry, path.read_bytes())
    return lzma.compress(target.getvalue(), preset=1)


def unpack(sources: bytes) -> None:
    """Make `liftlog_jepsen` importable here if it is not."""
    if find_spec("liftlog_jepsen") is not None and find_spec("liftlog") is not None:
        return
    digest = hashlib.sha256(sources).hexdigest()[:16]
    folder = _own_folder()
    path = os.path.join(folder, f"{digest}.zip")
    if path in sys.path:
        return
    archive = lzma.decompress(sources)
    written = None
    if os.path.exists(path):
        with open(path, "rb") as file:
            written = file.read()
    if written != archive:
        # Several workers may do this at the same time: each writes its own and puts it in place in one step.
        descriptor, temporary = tempfile.mkstemp(dir=folder)
        with os.fdopen(descriptor, "wb") as file:
            file.write(archive)
        os.replace(temporary, path)
    sys.path.insert(0, path)
    importlib.invalidate_caches()


def _own_folder() -> str:
    """A folder for temporary files that nobody else may write into: code is loaded from it."""
    folder = os.path.join(tempfile.gettempdir(), f"liftlog-jepsen-{os.getuid()}")
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        found = os.lstat(folder)
        if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o077:
            return tempfile.mkdtemp(prefix="liftlog-jepsen-")
    return folder


def kernel(
    module: str, name: str, *arguments: Any
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` that calls `module.name(batches, *arguments)` on the worker.

    Arguments are plain data: they are unpacked before the project is.
    """
    by_value()
    sources = bundle()

    def call(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        unpack(sources)
        yield from getattr(importlib.import_module(module), name)(batches, *arguments)

    return call


def by_value() -> None:
    """From now on functions and classes of this module and of the Data Source are sent whole."""
    for name in ("liftlog_jepsen.spark.travel", "liftlog_jepsen.spark.source"):
        if name in sys.modules:
            cloudpickle.register_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]
