"""A repository whose models read in every way that there is, and a look at what another run would judge again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import sqlite3
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.linear_model import LogisticRegression

from onnx_gate.cache.entry import PartKind, describe_part, pack, read_entry, write_entry
from onnx_gate.cache.lookup import Again, Cache, Hit, Miss
from onnx_gate.cli.environ import worker_environ
from onnx_gate.gate.selection import select_models
from onnx_gate.manifest.load import load_manifest
from onnx_gate.records.asked import RunOptions
from tests.conftest import Run, run_manifest
from tests.onnx_models import external

MANIFEST = """\
version: 1
defaults: {strength: false}
models:
  - id: file
    source: models/file.joblib
    inputs: {x: {dtype: float32, shape: [batch, 3]}}
    data: data/rows.csv
    batches: [1, 4]
  - id: made
    source: models/made.py:build
    framework: sklearn
    inputs: {x: {dtype: float32, shape: [batch, 3], range: [-2, 2]}}
    batches: [1, 4]
  - id: shipped
    source: models/shipped.onnx
    batches: [2]
"""
MADE = """\
import ctypes, importlib, json, os, sqlite3
from pathlib import Path
import numpy as np
from helpers.scaling import scaled
import tinylib
HERE = Path(__file__).parent.parent
try:
    import extra_plugin
except ImportError:
    extra_plugin = None
try:
    from helpers import extra
except ImportError:
    extra = None

def build():
    import zipapp
    from sklearn.linear_model import Ridge
    weights = json.loads((HERE / "data/weights.json").read_text())
    more = np.load(HERE / "data/more.npy")
    linked = (HERE / "data/link.txt").read_text()
    parts = [path.name for path in sorted((HERE / "parts").iterdir())]
    try:
        (HERE / "optional.txt").read_text()
    except OSError:
        pass
    flags = [os.path.exists(HERE / "flag"), (HERE / "cache_of_mine").is_dir(), os.path.getsize(HERE / "data/large.bin")]
    names = [os.environ.get("HF_HOME"), "HF_HUB_OFFLINE" in os.environ]
    if (HERE / "native/libtiny.so").exists():
        ctypes.CDLL(str(HERE / "native/libtiny.so"))
    read = ctypes.CDLL(None)
    read.close(read.open(str(HERE / "data/native.bin").encode(), 0))
    table = sqlite3.connect(HERE / "data/rows.db")
    table.execute("select * from rows").fetchall()
    table.close()
    rng = np.random.default_rng(0)
    rows = scaled(rng.normal(size=(40, 3)))
    return Ridge().fit(rows, rows @ np.asarray(weights) + more.sum())
"""
LIBRARY = "site-packages"


@dataclass(frozen=True, kw_only=True)
class Zoo:
    """A repository, its cache, and what a run of it sees."""

    folder: Path
    """Of the repository."""
    cache: Path
    packages: Path
    environ: Mapping[str, str] = field(default_factory=worker_environ)

    def options(self, **changed: Any) -> dict[str, Any]:
        """Of a run."""
        known = {"cache": self.cache, "packages": str(self.packages), "environ": self.environ, "explain_cache": True}
        return {**known, **changed}

    def run(self, manifest: str = MANIFEST, **changed: Any) -> Run:
        """A real one."""
        return run_manifest(self.folder, manifest, strength=True, **self.options(**changed))

    def look(self, **changed: Any) -> dict[str, str]:
        """By model, what would have to be said of its entry: empty where it is a hit."""
        looked, told = self.looked(**changed)
        return {
            model_id: "" if isinstance(found, Hit) else "; ".join((*found.why, *told))
            for model_id, found in looked.items()
        }

    def looked(self, **changed: Any) -> tuple[dict[str, Hit | Again | Miss], list[str]]:
        """What the cache says of every model, and its warnings."""
        path, told = self.folder / "onnx-gate.yml", list[str]()
        options = RunOptions(jobs=1, **self.options(**changed))
        work = self.folder / "report/.work-00000000"
        cache = Cache(self.cache, options, manifest=path, output=self.folder / "report", work=work, warn=told.append)
        return {spec.id: cache.look(spec) for spec in select_models(load_manifest(path), options)}, told

    def entry(self, model_id: str) -> Path:
        """The file that remembers a model."""
        return next(path for path in self.cache.rglob("*.entry") if read_entry(path).head.model == model_id)

    def copied(self, target: Path) -> Zoo:
        """The same somewhere else, to be changed."""
        for name in ("repository", "cache", "layer"):
            shutil.copytree(self.folder.parent / name, target / name, symlinks=True)
        return Zoo(folder=target / "repository", cache=target / "cache", packages=target / _packages())


def remade(path: Path, events: Callable[[list[bytes]], list[bytes]] = list, **changed: Any) -> None:
    """An entry that somebody wrote on purpose: other words, with hashes that are right."""
    entry = read_entry(path)
    contents: list[bytes | Path] = []
    for part, place in [each for kind in PartKind for each in entry.parts(kind)]:
        content = path.read_bytes()[place : place + part.size]
        if part.kind is PartKind.EVENTS:
            content = pack(b"\n".join(events(list(entry.events()))) + b"\n")
        contents.append(content)
    kinds = [part.kind for kind in PartKind for part, _ in entry.parts(kind)]
    parts = tuple(map(describe_part, kinds, contents))
    with path.open("wb") as file:
        write_entry(file, replace(entry.head, **{"parts": parts, **changed}), contents)


def _packages() -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return Path("layer/lib") / version / LIBRARY


def make_zoo(place: Path) -> Zoo:
    """All of its files; no run yet."""
    folder = place / "repository"
    for name in (".git", "models", "data", "helpers", "parts", "native"):
        (folder / name).mkdir(parents=True)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3))
    joblib.dump(LogisticRegression().fit(rows, rows[:, 0] > 0), folder / "models/file.joblib")
    np.savetxt(folder / "data/rows.csv", rows[:20].astype(np.float32), delimiter=",", header="a,b,c", comments="")
    (folder / "models/made.py").write_text(MADE)
    (folder / "helpers/__init__.py").write_text("")
    (folder / "helpers/scaling.py").write_text(
        "from helpers.constants import FACTOR\n\n\ndef scaled(rows):\n    return rows * FACTOR\n"
    )
    (folder / "helpers/constants.py").write_text("FACTOR = 2.0\n")
    (folder / "data/weights.json").write_text(json.dumps([1.0, 2.0, 3.0]))
    np.save(folder / "data/more.npy", np.arange(3.0))
    (folder / "data/large.bin").write_bytes(b"0" * 100)
    with contextlib.closing(sqlite3.connect(folder / "data/rows.db")) as table:
        table.execute("create table rows (a)")
    (folder / "data/native.bin").write_bytes(b"0" * 100)
    (folder / "data/target.txt").write_text("one")
    (folder / "data/link.txt").symlink_to("target.txt")
    (folder / "parts/a.txt").write_text("a")
    (folder / "unread.txt").write_text("nobody reads this")
    _native(folder / "native/libtiny.so")
    external(folder / "models/shipped.onnx")
    packages = place / _packages()
    _install(packages)
    (folder / "onnx-gate.yml").write_text(MANIFEST)
    # Whatever is younger than a run might have changed in it.
    time.sleep(0.1)
    return Zoo(folder=folder, cache=place / "cache", packages=packages)


def _native(path: Path) -> None:
    """A library that only the linker reads, under a name of ours."""
    found = [each for folder in ("/lib", "/usr/lib") for each in Path(folder).rglob("libutil.so.1")]
    if found:
        shutil.copyfile(found[0], path)


def _install(site: Path) -> None:
    """A package as pip leaves it."""
    (site / "tinylib").mkdir(parents=True)
    (site / "tinylib/__init__.py").write_text("from tinylib import part\nVALUE = 1\n")
    (site / "tinylib/part.py").write_text("PART = 1\n")
    described = site / "tinylib-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Name: tinylib\nVersion: 1.0\n")
    files = [site / "tinylib/__init__.py", site / "tinylib/part.py", described / "METADATA"]
    (described / "RECORD").write_text("".join(_row(site, file) for file in files))


def _row(site: Path, file: Path) -> str:
    digest = urlsafe_b64encode(hashlib.sha256(file.read_bytes()).digest()).rstrip(b"=").decode()
    return f"{file.relative_to(site).as_posix()},sha256={digest},{file.stat().st_size}\n"
