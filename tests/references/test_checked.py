"""A reference is checked before it is used: every byte of every kind of file, and what it is of."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

from onnx_gate.errors import UsageError
from onnx_gate.gate.selection import require_folders
from onnx_gate.manifest.load import load_manifest
from onnx_gate.records.asked import Location, ModelSpec, RunOptions, Tolerance
from onnx_gate.records.found import Failure
from onnx_gate.references.index import Unreadable, hash_file, hash_read, parse_index, render_index
from onnx_gate.references.read import Reference, check_reference
from onnx_gate.vocabulary import Status
from tests.conftest import run_manifest
from tests.onnx_models import doubler, external

MANIFEST = "version: 1\nmodels:\n  - {id: m, source: m.onnx, batches: [2]}\n"
KINDS = ("index.json", "contract.json", "read.json", "case-0.npz", "model/m.onnx", "model/m.onnx.0.data")


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> tuple[Path, ModelSpec]:
    """A reference with every kind of file, and the model that it is of."""
    folder = tmp_path_factory.mktemp("saved")
    external(folder / "m.onnx")
    run_manifest(folder, MANIFEST, save_reference=folder / "references")
    return folder / "references", load_manifest(folder / "onnx-gate.yml").models[0]


@pytest.fixture
def copy(saved, tmp_path) -> tuple[Path, ModelSpec]:
    """One that may be spoilt."""
    shutil.copytree(saved[0], tmp_path / "references")
    return tmp_path / "references", saved[1]


def refused(folder: Path, spec: ModelSpec) -> str:
    """Why it is."""
    found = check_reference(folder, spec)
    assert isinstance(found, Failure)
    assert found.fix
    return found.message


def test_it_holds_what_it_should(saved):
    """Each kind of file that the next tests spoil, and no other."""
    folder, spec = saved
    files = {path.relative_to(folder / "m").as_posix() for path in (folder / "m").rglob("*") if path.is_file()}
    assert files == set(KINDS)
    assert isinstance(check_reference(folder, spec), Reference)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", [0.0, 0.3, 0.7, 1.0])
def test_one_changed_byte_is_found(copy, kind, place):
    """Wherever it is; the message names the file."""
    folder, spec = copy
    path = folder / "m" / kind
    data = bytearray(path.read_bytes())
    data[round(place * (len(data) - 1))] ^= 0x01
    path.write_bytes(data)
    assert kind in refused(folder, spec)


def test_every_byte_of_the_index_counts(saved):
    """It holds the hashes of all others, and its own."""
    text = (saved[0] / "m/index.json").read_text()
    parse_index(text)
    for position in range(len(text)):
        changed = text[:position] + chr(ord(text[position]) ^ 1) + text[position + 1 :]
        with pytest.raises(Unreadable):
            parse_index(changed)
    for changed in (text[:-1], f"{text} ", ""):
        with pytest.raises(Unreadable):
            parse_index(changed)


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_file_is_found(copy, kind):
    """And named."""
    folder, spec = copy
    (folder / "m" / kind).unlink()
    assert kind in refused(folder, spec)


@pytest.mark.parametrize("name", ["case-1.npz", "model/more.data", ".hidden"])
def test_an_extra_file_is_found(copy, name):
    """What nobody saved is not read by accident."""
    folder, spec = copy
    (folder / "m" / name).write_bytes(b"")
    assert f"{name} is not part of what was saved" in refused(folder, spec)


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_is_no_file(copy, kind, tmp_path):
    """Even one to the very same bytes: it may point elsewhere by the time it is read."""
    folder, spec = copy
    path = folder / "m" / kind
    shutil.move(path, tmp_path / "away")
    path.symlink_to(tmp_path / "away")
    assert "no plain file" in refused(folder, spec) or "there is no index.json" in refused(folder, spec)


def test_another_schema_is_refused(copy):
    """By its number."""
    folder, spec = copy
    path = folder / "m/index.json"
    content = json.loads(path.read_text())
    content["reference"]["schema"] = 3
    path.write_text(json.dumps(content))
    assert "it has schema 3, and this version of onnx-gate reads 5" in refused(folder, spec)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"batches": (1, 2)}, "`batches`"),
        ({"edges": ("zeros",)}, "`edges`"),
        ({"tolerance": Tolerance(rtol=1.0, atol=0.0)}, "`tolerance`"),
        ({"source": Location(file="/elsewhere/n.onnx", shown="n.onnx")}, "`source`"),
    ],
)
def test_a_model_that_is_another_by_now_is_refused(saved, changes, key):
    """The keys that differ are named."""
    folder, spec = saved
    assert f"the model 'm' has changed since this reference was made of it: {key}" in refused(
        folder, replace(spec, **changes)
    )


def test_where_and_how_long_it_runs_makes_no_other_model(saved):
    """Nor the line of the manifest that it is on."""
    folder, spec = saved
    moved = replace(spec, line=99, timeout=1.0, memory=2**30, allow_failure=True, providers=())
    assert isinstance(check_reference(folder, moved), Reference)


def test_a_source_that_changed_since_is_found(saved, tmp_path):
    """Where it is on this machine at all."""
    folder, spec = saved
    (tmp_path / "m.onnx").write_bytes(b"another model")
    here = replace(spec, folder=str(tmp_path), onnx=str(tmp_path / "m.onnx"))
    here = replace(here, source=replace(spec.source, file=here.onnx))
    assert "the file of `source`" in refused(folder, here)
    (tmp_path / "m.onnx").unlink()
    assert isinstance(check_reference(folder, here), Reference)


def test_a_folder_under_another_name_is_refused(copy):
    """A reference is of the model that it says."""
    folder, spec = copy
    (folder / "m").rename(folder / "other")
    assert "it is a reference of the model 'm'" in refused(folder, replace(spec, id="other"))


def test_a_model_without_a_reference_is_an_error(copy):
    """The others are judged all the same."""
    folder, spec = copy
    assert "this model has no reference here" in refused(folder, replace(spec, id="n"))


def test_a_spoilt_reference_is_that_models_error(copy, saved):
    """Through the whole gate: exit 3, and nothing was compared."""
    folder, _ = copy
    (folder / "m/contract.json").write_text("{}")
    run = run_manifest(saved[0].parent, MANIFEST, reference=folder)
    assert (run.result.exit_code, run["m"].verdict) == (3, Status.ERROR)
    assert "contract.json: it was changed after it was written" in run["m"].error
    assert not any(check.total for check in run["m"].checks)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"reference": "absent"}, "there is no such folder"),
        ({"reference": "empty"}, "the folder is empty"),
        ({"reference": "strange"}, "it holds 'x', and the manifest has no such model"),
        ({"save_reference": "strange"}, "the folder holds 'x', which is no reference"),
        ({"save_reference": "file"}, "this is no folder"),
        ({"save_reference": "file/below"}, "can't be made"),
        ({"save_reference": "new", "reference": "empty"}, "makes references or uses them"),
    ],
)
def test_a_folder_that_makes_no_sense_is_refused_before_anything_runs(saved, tmp_path, options, words):
    """With exit 2."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "strange/x").mkdir(parents=True)
    (tmp_path / "file").touch()
    manifest = load_manifest(saved[0].parent / "onnx-gate.yml")
    with pytest.raises(UsageError, match=words) as caught:
        require_folders(manifest, RunOptions(jobs=1, **{key: tmp_path / name for key, name in options.items()}))
    assert "Fix: " in str(caught.value)


def test_saving_again_replaces_what_was_there(copy, saved):
    """And leaves nothing behind."""
    folder, spec = copy
    (folder / "m/contract.json").write_text("{}")
    run_manifest(saved[0].parent, MANIFEST, save_reference=folder)
    assert isinstance(check_reference(folder, spec), Reference)
    assert [entry.name for entry in folder.iterdir()] == ["m"]


@pytest.mark.parametrize(
    "change",
    [
        lambda contract: contract["cases"][0].update(archive="../../case-0.npz"),
        lambda contract: contract.update(model="../m.onnx"),
        lambda contract: contract.update(cause="fate"),
        lambda contract: contract.update(said=["{}"]),
        lambda contract: contract.update(breaches=[{"x": 1}]),
        lambda contract: contract.pop("cases"),
        lambda contract: contract.update(cases=[3]),
    ],
)
def test_a_contract_that_we_would_not_write_is_an_error(copy, saved, change):
    """With hashes that fit, too: whoever wrote it is not trusted to have been us."""
    folder, _ = copy
    contract = json.loads((folder / "m/contract.json").read_text())
    change(contract)
    (folder / "m/contract.json").write_text(json.dumps(contract))
    index = parse_index((folder / "m/index.json").read_text())
    files = {**index.files, "contract.json": hash_file(folder / "m/contract.json")}
    (folder / "m/index.json").write_text(render_index(replace(index, files=files)))
    run = run_manifest(saved[0].parent, MANIFEST, reference=folder)
    assert run["m"].verdict is Status.ERROR
    assert "it is no reference that this version of onnx-gate made" in run["m"].error


def test_a_folder_of_data_that_changed_is_found(tmp_path):
    """Recorded answers are files of a folder: the manifest names the folder, and it is still the same."""
    doubler(tmp_path / "m.onnx")
    folder = tmp_path / "recorded"
    folder.mkdir()
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for name, array in (("input_0", x), ("output_0", 2 * x)):
        (folder / f"{name}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
    manifest = "version: 1\nmodels:\n  - {id: m, source: m.onnx, data: recorded}\n"
    run_manifest(tmp_path, manifest, save_reference=tmp_path / "references")
    spec = load_manifest(tmp_path / "onnx-gate.yml").models[0]
    assert isinstance(check_reference(tmp_path / "references", spec), Reference)
    (folder / "output_0.pb").write_bytes(numpy_helper.from_array(3 * x).SerializeToString())
    assert "the file of `data`" in refused(tmp_path / "references", spec)


def test_weights_beside_a_model_that_changed_are_found(tmp_path):
    """The .onnx itself is still the same: what it computes is in another file."""
    external(tmp_path / "m.onnx")
    run_manifest(tmp_path, MANIFEST, save_reference=tmp_path / "references")
    weights = tmp_path / "weights.bin"
    weights.write_bytes(weights.read_bytes()[::-1])
    run = run_manifest(tmp_path, MANIFEST, reference=tmp_path / "references")
    model = run.result.models[0]
    assert model.verdict is Status.ERROR
    assert "the file weights.bin, which was read with it" in model.error
    weights.unlink()
    assert run_manifest(tmp_path, MANIFEST, reference=tmp_path / "references").result.exit_code == 0


FACTORY = """
import json, pathlib
import numpy as np
from sklearn.linear_model import LinearRegression
from scale import FACTOR

def build():
    slopes = json.loads((pathlib.Path(__file__).parent / "slopes.json").read_text())
    rows = np.eye(2)
    return LinearRegression().fit(rows, FACTOR * rows @ np.array(slopes))
"""
OF_A_FACTORY = """
version: 1
models:
  - id: m
    source: 'model.py:build'
    framework: sklearn
    inputs: {X: {dtype: float32, shape: [batch, 2]}}
    batches: [2]
"""


@pytest.fixture
def of_a_factory(tmp_path):
    """The reference of a model whose factory reads a file and imports a module; and what the manifest says of it."""
    (tmp_path / "model.py").write_text(FACTORY)
    (tmp_path / "scale.py").write_text("FACTOR = 2.0\n")
    (tmp_path / "slopes.json").write_text("[1.0, 3.0]")
    run = run_manifest(tmp_path, OF_A_FACTORY, save_reference=tmp_path / "references")
    assert run.result.exit_code == 0
    return tmp_path, load_manifest(tmp_path / "onnx-gate.yml").models[0]


@pytest.mark.parametrize(("name", "content"), [("slopes.json", "[1.0, 4.0]"), ("scale.py", "FACTOR = 3.0\n")])
def test_a_file_that_the_factory_reads_and_that_changed_is_found(of_a_factory, name, content):
    """Neither is named in the manifest, and the answers are those of what they were."""
    folder, spec = of_a_factory
    assert isinstance(check_reference(folder / "references", spec), Reference)
    (folder / name).write_text(content)
    assert f"the file {name}, which was read with it" in refused(folder / "references", spec)
    (folder / name).unlink()
    assert isinstance(check_reference(folder / "references", spec), Reference)


@pytest.fixture
def of_links(tmp_path):
    """The same with links: to a file and to a folder of the repository, and to a file outside of it."""
    folder = tmp_path / "repository"
    (folder / "kept").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "model.py").write_text(FACTORY)
    read = "OTHERS = [(pathlib.Path(__file__).parent / name).read_text() for name in ('folder/b.txt', 'away.txt')]"
    (folder / "scale.py").write_text(f"import pathlib\nFACTOR = 2.0\n{read}\n")
    (folder / "kept/one.json").write_text("[1.0, 3.0]")
    (folder / "kept/two.json").write_text("[1.0, 5.0]")
    (folder / "kept/b.txt").write_text("b")
    (tmp_path / "away.txt").write_text("far")
    (folder / "slopes.json").symlink_to("kept/one.json")
    (folder / "folder").symlink_to("kept")
    (folder / "away.txt").symlink_to(tmp_path / "away.txt")
    run = run_manifest(folder, OF_A_FACTORY, save_reference=tmp_path / "references")
    assert run.result.exit_code == 0
    return folder, load_manifest(folder / "onnx-gate.yml").models[0], run["m"]


def _change(folder, name):
    if name == "kept/one.json":
        (folder / name).write_text("[1.0, 4.0]")
    elif name == "kept/b.txt":
        (folder / name).write_text("c")
    else:
        (folder / "slopes.json").unlink()
        (folder / "slopes.json").symlink_to("kept/two.json")


@pytest.mark.parametrize(
    ("changed", "shown"),
    [("kept/one.json", "slopes.json"), ("slopes.json", "slopes.json"), ("kept/b.txt", "folder/b.txt")],
)
def test_a_file_behind_a_link_that_changed_is_found(of_links, tmp_path, changed, shown):
    """The target itself, a link that leads to another one, and a file in a linked folder."""
    folder, spec, _ = of_links
    assert isinstance(check_reference(tmp_path / "references", spec), Reference)
    _change(folder, changed)
    assert f"the file {shown}, which was read with it" in refused(tmp_path / "references", spec)


def test_a_link_out_of_the_repository_is_a_warning(of_links):
    """Nothing outside is hashed."""
    assert any("away.txt, which leads out of the repository" in told for told in of_links[2].coverage.warnings)


def test_files_that_a_model_claims_to_have_read_are_looked_at_with_care(of_a_factory):
    """What its process says may be any text: no file outside of the repository is hashed, nor one of Git's."""
    folder, spec = of_a_factory
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("secret")
    (folder / "link").symlink_to("/etc/hostname")
    claimed = ["../x", "/etc/hostname", ".git/config", "link", "\0", "", ".", 7, None, "slopes.json", "s" * 5_000]
    assert list(hash_read(spec, claimed)) == ["slopes.json"]
