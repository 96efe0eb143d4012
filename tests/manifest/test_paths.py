"""Paths: relative to the manifest, there, and inside its repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_gate.errors import ManifestError
from onnx_gate.manifest.load import load_manifest
from onnx_gate.records.asked import Location
from onnx_gate.repository.root import find_repository
from tests.manifest.conftest import Project, place

FACTORY = "framework: torch, inputs: {X: {dtype: float32, shape: [batch, 4]}}"


def test_paths_are_relative_to_the_manifest(project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever folder the gate is started in; the spec holds absolute paths, and what the user wrote."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    model = project.model("id: a, source: m.joblib, onnx: ./m.onnx, data: d.npz")
    top = project.folder.resolve()
    assert model.source == Location(file=str(top / "m.joblib"), shown="m.joblib")
    assert model.onnx == str(top / "m.onnx")
    assert model.data == Location(file=str(top / "d.npz"), shown="d.npz")


@pytest.mark.parametrize("key", ["source", "onnx", "weights", "data"])
def test_a_missing_file_is_refused_with_the_nearest_that_is_there(project: Project, key: str) -> None:
    """Each kind of file, at its place."""
    given = {"source": "f.py:build", "onnx": "m.onnx", "weights": "w.safetensors", "data": "d.npz"}
    missing = {"source": "g.py:build", "onnx": "mm.onnx", "weights": "w.safetensor", "data": "e.npz"}
    nearest = {"source": "f.py", "onnx": "m.onnx", "weights": "w.safetensors", "data": "d.npz"}
    keys = given | {key: missing[key]}
    problem = project.model_problem(
        f"id: a, {FACTORY}, " + ", ".join(f"{name}: '{value}'" for name, value in keys.items())
    )
    name = missing[key].partition(":")[0]
    assert problem.path == f"models[0].{key}"
    assert problem.message == f"{name!r} does not exist (looked beside the manifest)"
    assert problem.fix == f"did you mean {nearest[key]!r}?"


def test_a_missing_folder_is_said_to_be_missing(project: Project) -> None:
    """The likely mistake is the folder, not the file."""
    problem = project.model_problem("id: a, source: modles/m.onnx")
    assert problem.fix == "there is no folder 'modles' either"


@pytest.mark.parametrize("key", ["source", "onnx", "weights"])
def test_a_folder_is_no_file(project: Project, key: str) -> None:
    """Only `data` may be a folder."""
    (project.folder / "folder.onnx").mkdir()
    source = "folder.onnx" if key == "source" else "f.py:build"
    extra = "" if key == "source" else f", {FACTORY}, {key}: folder.onnx"
    problem = project.model_problem(f"id: a, source: '{source}'{extra}")
    assert (problem.path, problem.message) == (f"models[0].{key}", "'folder.onnx' is a folder, expected a file")


def test_data_may_be_a_folder(project: Project) -> None:
    """An ONNX test_data_set."""
    model = project.model("id: a, source: m.onnx, data: test_data_set_0")
    assert model.data == Location(file=str(project.folder.resolve() / "test_data_set_0"), shown="test_data_set_0")


@pytest.mark.parametrize("key", ["source", "onnx", "weights", "data"])
@pytest.mark.parametrize("way", ["parent", "absolute", "link", "linked folder", "detour"])
def test_leaving_the_repository_is_refused(
    project: Project, tmp_path_factory: pytest.TempPathFactory, key: str, way: str
) -> None:
    """By `..`, by an absolute path, through a symbolic link to a file or to a folder: also where the file exists."""
    outside = tmp_path_factory.mktemp("outside")
    for name in ("x.onnx", "x.py", "x.npz"):
        (outside / name).touch()
    name = {"source": "x.py", "data": "x.npz"}.get(key, "x.onnx")
    (project.folder / name).symlink_to(outside / name)
    (project.folder / "linked").symlink_to(outside)
    up = "../" * len(project.folder.resolve().parts)
    written = {
        "parent": f"../{outside.name}/{name}",
        "absolute": str(outside / name),
        "link": name,
        "linked folder": f"linked/{name}",
        "detour": f"{up}{outside.resolve().relative_to('/')}/{name}",
    }[way]
    callable_ = ":build" if key == "source" else ""
    source = "" if key == "source" else "source: 'f.py:build', "
    problem = project.model_problem(f"id: a, {source}{FACTORY}, {key}: '{written}{callable_}'")
    assert problem.path == f"models[0].{key}"
    assert problem.message == f"{written!r} leaves the repository ({project.folder.name}/)"
    assert problem.fix == "keep models and data inside it"


@pytest.mark.parametrize("written", [".git/x.npz", "linked/x.npz", ".git"])
def test_files_of_gits_own_are_refused(project: Project, written: str) -> None:
    """What is read as data may be shown in a report, and there are credentials among them."""
    (project.folder / ".git").mkdir(exist_ok=True)
    (project.folder / ".git/x.npz").touch()
    (project.folder / "linked").symlink_to(".git")
    problem = project.model_problem(f"id: a, source: 'f.py:build', {FACTORY}, data: {written}")
    assert problem.message == f"{written!r} is in a folder of Git's own"


def test_absolute_paths_and_links_inside_the_repository_are_fine(project: Project) -> None:
    """It is leaving that is refused, not the spelling."""
    (project.folder / "link.onnx").symlink_to("m.onnx")
    target = str(project.folder.resolve() / "m.onnx")
    for written in (str(project.folder / "m.onnx"), "link.onnx", "test_data_set_0/../m.onnx"):
        assert project.model(f"id: a, source: '{written}'").source.file == target


def test_a_manifest_in_a_subfolder_may_look_around_in_its_repository(project: Project) -> None:
    """The repository is the nearest folder with `.git`, and the manifest need not be at its top."""
    manifest = project.folder / "ci" / "gate" / "onnx-gate.yml"
    manifest.parent.mkdir(parents=True)
    manifest.write_text("version: 1\nmodels: [{id: a, source: ../../m.onnx}]\n")
    assert load_manifest(manifest).models[0].source.file == str(project.folder.resolve() / "m.onnx")


def test_the_nearest_repository_counts(project: Project) -> None:
    """A submodule is a repository of its own: `.git` is a file there."""
    inner = project.folder / "submodule" / "ci"
    inner.mkdir(parents=True)
    (inner.parent / ".git").write_text("gitdir: ../.git/modules/submodule\n")
    assert find_repository(inner) == inner.parent
    (inner / "onnx-gate.yml").write_text("version: 1\nmodels: [{id: a, source: ../../m.onnx}]\n")
    with pytest.raises(ManifestError, match=r"leaves the repository \(submodule/\)"):
        load_manifest(inner / "onnx-gate.yml")


def test_without_a_repository_the_manifests_folder_is_the_limit(tmp_path: Path) -> None:
    """No `.git` up to the root: nothing outside of the folder is read."""
    folder = tmp_path / "plain"
    folder.mkdir()
    (tmp_path / "m.onnx").touch()
    (folder / "onnx-gate.yml").write_text("version: 1\nmodels: [{id: a, source: ../m.onnx}]\n")
    assert find_repository(folder) == folder
    with pytest.raises(ManifestError, match=r"leaves the repository \(plain/\)"):
        load_manifest(folder / "onnx-gate.yml")


@pytest.mark.parametrize(
    "written",
    ["a\\0b.onnx", f"{'x' * 300}.onnx", "loop.onnx", f"{'x/' * 3000}m.onnx"],
    ids=["nul", "name", "loop", "path"],
)
def test_paths_that_no_system_takes_are_refused_like_others(project: Project, written: str) -> None:
    """A NUL, a name or a path that is too long, a link to itself: a problem of the manifest, not a crash."""
    (project.folder / "loop.onnx").symlink_to("loop.onnx")
    problem = project.model_problem(f'id: a, source: "{written}"')
    assert place(problem) == (4, 21, "models[0].source")


@pytest.mark.parametrize(
    ("written", "location"),
    [
        ("f.py:build", Location(file="f.py", callable="build", shown="f.py:build")),
        ("./f.py:_build2", Location(file="f.py", callable="_build2", shown="./f.py:_build2")),
        ("pkg.mod:build", Location(module="pkg.mod", callable="build", shown="pkg.mod:build")),
        ("mod:Net", Location(module="mod", callable="Net", shown="mod:Net")),
    ],
)
def test_factories_are_files_or_modules(project: Project, written: str, location: Location) -> None:
    """`path/to/file.py:callable` or `package.module:callable`, for the source and for the data."""
    model = project.model(f"id: a, source: '{written}', data: '{written}', {FACTORY}")
    file = str(project.folder.resolve() / location.file) if location.file else None
    assert model.source == model.data == Location(**{**vars(location), "file": file})


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("f.py:", "'' is no name of a function"),
        ("f.py:build()", "'build()' is no name of a function"),
        ("f.py:a.b", "'a.b' is no name of a function"),
        ("f.py:os.system('x')", "\"os.system('x')\" is no name of a function"),
        ("g.py:build", "'g.py' does not exist (looked beside the manifest)"),
        ("m.onnx:build", None),
        (":build", "'' is neither a .py file nor a module"),
        ("pkg/mod:build", "'pkg/mod' is neither a .py file nor a module"),
        ("C:\\models\\m", "'\\\\models\\\\m' is no name of a function"),
        ("https://example.org/m", "'//example.org/m' is no name of a function"),
        ("..mod:build", "'..mod' is neither a .py file nor a module"),
    ],
)
def test_what_is_no_factory_is_refused(project: Project, written: str, message: str | None) -> None:
    """The part behind the colon is a name, the part before it a file or a module."""
    text = written.replace("'", "''")
    if message is None:
        # A module may be called like this; whether it is there, the worker finds out.
        assert project.model(f"id: a, source: '{text}', {FACTORY}").source.module == "m.onnx"
        return
    problem = project.model_problem(f"id: a, source: '{text}', {FACTORY}")
    assert (problem.path, problem.message) == ("models[0].source", message)


def test_no_file_is_opened_while_a_manifest_is_read(project: Project) -> None:
    """A source that would explode when imported is only looked for."""
    (project.folder / "f.py").write_text("raise SystemExit('imported')\n")
    assert project.model(f"id: a, source: 'f.py:build', data: 'f.py:rows', {FACTORY}").source.callable == "build"
