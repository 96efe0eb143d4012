"""What must be judged again after a change, and what need not be: one run of real models, a look after each change."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from onnx_gate.cache import facts
from tests.cache.zoo import MANIFEST, Zoo

Change = Callable[[Zoo], Zoo | None]


def write(name: str, text: str | bytes = "changed\n") -> Change:
    """Put a file there, or another in its place."""

    def change(zoo: Zoo) -> None:
        path = zoo.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    return change


def append(name: str, text: bytes = b"\n") -> Change:
    """Make a file longer."""
    return lambda zoo: write(name, (zoo.folder / name).read_bytes() + text)(zoo)


def flip(name: str) -> Change:
    """Change one bit of a file, and neither its size nor its time."""

    def change(zoo: Zoo) -> None:
        path = zoo.folder / name
        before, content = path.stat(), bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    return change


def remove(name: str) -> Change:
    """Delete a file."""
    return lambda zoo: (zoo.folder / name).unlink()


def environ(name: str, value: str) -> Change:
    """Set a variable."""
    return lambda zoo: replace(zoo, environ={**zoo.environ, name: value})


def manifest(old: str, new: str) -> Change:
    """Write something else into the manifest."""

    def change(zoo: Zoo) -> None:
        assert old in MANIFEST
        (zoo.folder / "onnx-gate.yml").write_text(MANIFEST.replace(old, new))

    return change


def in_library(name: str, text: str | None) -> Change:
    """Change a file of an installed package, or remove it."""

    def change(zoo: Zoo) -> None:
        path = zoo.packages / name
        if text is None:
            path.unlink()
        else:
            path.write_text(text)

    return change


def upgrade(zoo: Zoo) -> None:
    """Install another version of a package, with the same files."""
    (zoo.packages / "tinylib-1.0.dist-info").rename(zoo.packages / "tinylib-1.1.dist-info")


def rebuild(zoo: Zoo) -> None:
    """Install the same version again, built with another file in it."""
    record = zoo.packages / "tinylib-1.0.dist-info/RECORD"
    record.write_text(record.read_text() + "tinylib/more.txt,sha256=AAAA,4\n")
    (zoo.packages / "tinylib/more.txt").write_text("more")


def to_package(zoo: Zoo) -> None:
    """A module becomes a package of the same name."""
    (zoo.folder / "helpers/scaling").mkdir()
    shutil.copy(zoo.folder / "helpers/scaling.py", zoo.folder / "helpers/scaling/__init__.py")


def retarget(zoo: Zoo) -> None:
    """A link leads to another file."""
    (zoo.folder / "data/other.txt").write_text("two")
    (zoo.folder / "data/link.txt").unlink()
    (zoo.folder / "data/link.txt").symlink_to("other.txt")


MISSES: dict[str, tuple[str, Change, str]] = {
    # Which model, the change, and a word of the explanation.
    "the source": ("file", append("models/file.joblib", b"\0"), "models/file.joblib"),
    "one bit of the source, with the old time": ("file", flip("models/file.joblib"), "models/file.joblib"),
    "the data": ("file", append("data/rows.csv", b"1,2,3\n"), "data/rows.csv"),
    "the factory": ("made", append("models/made.py"), "models/made.py"),
    "a module that it imports": ("made", append("helpers/scaling.py"), "helpers/scaling.py"),
    "a module that this one imports": ("made", write("helpers/constants.py", "FACTOR = 3.0\n"), "helpers/constants.py"),
    "the package of these modules": ("made", write("helpers/__init__.py", "x = 1\n"), "helpers/__init__.py"),
    "a module that becomes a package": ("made", to_package, "helpers/scaling"),
    "a text that it reads": ("made", write("data/weights.json", "[1.0, 2.0, 4.0]"), "data/weights.json"),
    "an array that it reads": ("made", flip("data/more.npy"), "data/more.npy"),
    "a file that is gone": ("made", remove("data/weights.json"), "data/weights.json is gone"),
    "a file behind a link": ("made", write("data/target.txt", "two"), "data/link.txt"),
    "a link that leads elsewhere": ("made", retarget, "data/link.txt"),
    "a file more in a folder that it lists": ("made", write("parts/b.txt"), "folder parts"),
    "a file less in a folder that it lists": ("made", remove("parts/a.txt"), "folder parts"),
    "a file that it tried to open": ("made", write("optional.txt"), "optional.txt appeared"),
    "a file that it asked for": ("made", write("flag"), "flag appeared"),
    "a folder that it asked for": ("made", write("cache_of_mine/x"), "cache_of_mine appeared"),
    "the size of a file": ("made", append("data/large.bin"), "data/large.bin"),
    "a module in the way of Python's own": ("made", write("zipapp.py"), "zipapp"),
    "a module in the way of an installed one": ("made", write("tinylib.py"), "tinylib"),
    "a module that it could not import": ("made", write("extra_plugin.py"), "extra_plugin"),
    "an installed module that it could not import": ("made", in_library("extra_plugin.py", "x = 1"), "extra_plugin"),
    "a part of a package that it could not import": ("made", write("helpers/extra.py"), "helpers/extra"),
    "a library that only the linker reads": ("made", append("native/libtiny.so", b"\0"), "native/libtiny.so"),
    "a file that native code opens and closes": ("made", flip("data/native.bin"), "data/native.bin"),
    "a database": ("made", flip("data/rows.db"), "data/rows.db"),
    "a variable that it reads": ("made", environ("HF_HOME", "/elsewhere"), "HF_HOME"),
    "a variable that it looks for": ("made", environ("HF_HUB_OFFLINE", "1"), "HF_HUB_OFFLINE"),
    "a variable of native libraries": ("file", environ("OMP_SCHEDULE", "static"), "OMP_SCHEDULE"),
    "the locale": ("file", environ("LC_NUMERIC", "de_DE.UTF-8"), "LC_NUMERIC"),
    "the version of a package": ("made", upgrade, "tinylib"),
    "a package that was built again": ("made", rebuild, "tinylib"),
    "an edited file of a package": ("made", in_library("tinylib/part.py", "PART = 2  # longer\n"), "tinylib"),
    "an edited file of the same size": ("made", in_library("tinylib/part.py", "PART = 2\n"), "tinylib"),
    "a missing file of a package": ("made", in_library("tinylib/part.py", None), "tinylib"),
    "a shipped file": ("shipped", append("models/shipped.onnx", b"\x12\x00"), "models/shipped.onnx"),
    "its weights": ("shipped", flip("models/weights.bin"), "models/weights.bin"),
    "the batches": ("file", manifest("[1, 4]", "[1, 5]"), "batches"),
    "the schema": ("made", manifest("range: [-2, 2]", "range: [-3, 2]"), "inputs"),
    "options of the converter": (
        "made",
        manifest("    framework", "    convert: {opset: 17}\n    framework"),
        "convert",
    ),
    "an option of a provider": (
        "file",
        manifest("    data:", "    providers: {cpu: {options: {use_arena: '0'}}}\n    data:"),
        "providers",
    ),
    "how the session is set up": (
        "file",
        manifest("    data:", "    session: {optimization: basic}\n    data:"),
        "providers",
    ),
    "how many wrong models are tried": (
        "file",
        manifest("    data:", "    strength: {mutants: 7}\n    data:"),
        "strength",
    ),
    "edge cases": ("made", manifest("    framework", "    edges: true\n    framework"), "edges"),
    "a default": ("file", lambda zoo: manifest("defaults: {", "defaults: {timeout: 200, ")(zoo), "timeout"),
}


def test_forty_kinds_of_change() -> None:
    """And those of the machine, below."""
    assert len(MISSES) >= 40
    assert len(HITS) >= 10


@pytest.mark.parametrize("kind", MISSES)
def test_what_changed_is_a_miss(zoo: Zoo, kind: str) -> None:
    """And the explanation names it."""
    model, change, word = MISSES[kind]
    changed = change(zoo) or zoo
    told = changed.look()
    assert told[model], f"{kind}: a hit"
    assert word in told[model]


@pytest.mark.parametrize("kind", ["the source", "a text that it reads", "the batches"])
def test_others_are_still_hits(zoo: Zoo, kind: str) -> None:
    """A change of one model is not one of the others."""
    changed = MISSES[kind][1](zoo) or zoo
    assert not changed.look()["shipped"]


MACHINE: dict[str, tuple[str, Callable[..., object]]] = {
    "onnx-gate": ("_own_source", lambda: "another"),
    "processor": ("processor", lambda: "another"),
    "processor cores": ("_cores", lambda: 1_000),
    "devices": ("_devices", lambda: "another"),
}


@pytest.mark.parametrize("fact", MACHINE)
def test_another_machine_or_gate_is_a_miss(zoo: Zoo, monkeypatch: pytest.MonkeyPatch, fact: str) -> None:
    """For every model."""
    name, other = MACHINE[fact]
    monkeypatch.setattr(facts, name, other)
    assert all(fact in told for told in zoo.look().values())


def test_another_python_is_a_miss(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where only the build differs."""
    monkeypatch.setattr(sys, "version", "3.99.0 (main)")
    assert all("Python" in told for told in zoo.look().values())


def test_other_users_are_a_miss(zoo: Zoo) -> None:
    """What models may read depends on who they are."""
    assert all("isolation" in told for told in zoo.look(isolation="uids").values())


def add_model(zoo: Zoo) -> None:
    """One more, before all others."""
    more = "models:\n  - {id: more, source: models/shipped.onnx}\n"
    (zoo.folder / "onnx-gate.yml").write_text(MANIFEST.replace("models:\n", more))


def reorder(zoo: Zoo) -> None:
    """The last model first."""
    head, *models = MANIFEST.split("  - id:")
    (zoo.folder / "onnx-gate.yml").write_text("  - id:".join([head, *reversed(models)]))


def touch(zoo: Zoo) -> None:
    """A checkout gives every file a time of its own."""
    for path in zoo.folder.rglob("*"):
        os.utime(path, (1e9, 1e9), follow_symlinks=False)


def compiled(zoo: Zoo) -> None:
    """Python leaves compiled code wherever it imports from."""
    for folder in (zoo.folder, zoo.folder / "helpers", zoo.folder / "parts", zoo.packages / "tinylib"):
        (folder / "__pycache__").mkdir(exist_ok=True)
        (folder / "__pycache__/x.cpython-311.pyc").write_bytes(b"code")


def moved(zoo: Zoo) -> Zoo:
    """The same checkout in another folder."""
    place = zoo.folder.parent / "somewhere/else"
    place.parent.mkdir()
    zoo.folder.rename(place)
    return replace(zoo, folder=place)


def reported(zoo: Zoo) -> None:
    """Reports of another run, in a folder that it made."""
    (zoo.folder / "report").mkdir(exist_ok=True)
    (zoo.folder / "report/results.json").write_text("{}")


HITS: dict[str, Change] = {
    "nothing": lambda zoo: None,
    "a file that nobody reads": write("unread.txt"),
    "a new file that nobody looks for": write("README.md"),
    "a new module that nobody imports": write("helpers/unused.py"),
    "the text of a file of which only the size is asked": flip("data/large.bin"),
    "times of files": touch,
    "compiled code": compiled,
    "another folder": moved,
    "the report of an earlier run": reported,
    "a comment in the manifest": manifest("models:\n", "# these are ours\nmodels:\n"),
    "one model more": add_model,
    "the order of the models": reorder,
    "a divergence that is allowed": manifest("    framework", "    allow_failure: true\n    framework"),
    "a variable that nobody reads": environ("XDG_CACHE_HOME", "/elsewhere"),
    "spaces in the manifest": manifest("batches: [2]", "batches:   [2]"),
}


@pytest.mark.parametrize("kind", HITS)
def test_what_did_not_change_is_a_hit(zoo: Zoo, kind: str) -> None:
    """Of every model."""
    changed = HITS[kind](zoo) or zoo
    told = changed.look()
    assert {name: told[name] for name in ("file", "made", "shipped")} == dict.fromkeys(("file", "made", "shipped"), "")
