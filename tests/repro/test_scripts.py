"""What a folder in repro/ shows: exit code 1 while the model fails, 0 when it is mended, 2 for anything else."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from sklearn.linear_model import LinearRegression

from onnx_gate.vocabulary import Cause, LeftOut, ReproRows, Status
from onnx_gate.wording import repro as words
from onnx_gate.worker.repro import script
from tests import onnx_models
from tests.conftest import Run, run_manifest
from tests.onnx_models import save, value

PACKAGES = [path for path in sys.path if path.endswith("site-packages")]
X = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")


def call(script: Path, *arguments: object) -> tuple[int, str]:
    """Exit code and output, in an interpreter that sees neither the environment nor onnx_gate."""
    loader = (
        "import runpy, sys; sys.path += sys.argv.pop(1).split(':'); sys.argv.pop(0); sys.modules['onnx_gate'] = None"
    )
    # With -S there is no site: packages are named, and the editable install of onnx_gate is not among them.
    command = [sys.executable, "-I", "-S", "-c", f"{loader}; runpy.run_path(sys.argv[0], run_name='__main__')"]
    done = subprocess.run(
        [*command, os.pathsep.join(PACKAGES), str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={},
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def words_of(path: Path, right: bool) -> None:
    """Texts in, texts and whole numbers out: `b` becomes `B`, unless the file is wrong."""
    common: dict[str, Any] = {"domain": "ai.onnx.ml", "keys_strings": ["a", "b", "c"]}
    nodes = [
        helper.make_node(
            "LabelEncoder", ["word"], ["upper"], values_strings=["A", "B" if right else "X", "C"], **common
        ),
        helper.make_node("LabelEncoder", ["word"], ["number"], values_int64s=[1, 2, 3], **common),
    ]
    outputs = [value("upper", TensorProto.STRING, ["batch"]), value("number", TensorProto.INT64, ["batch"])]
    save(path, nodes, [value("word", TensorProto.STRING, ["batch"])], outputs, domains={"ai.onnx.ml": 3})


def in_parts(path: Path, right: bool) -> None:
    """A sequence of x and of its double, or of its triple."""
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["other"]),
        helper.make_node("SequenceConstruct", ["x", "other"], ["parts"]),
    ]
    output = helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, None)
    save(path, nodes, [value("x")], [output], {"k": np.float32(2 if right else 3)})


def scaled(path: Path, right: bool) -> None:
    """y = 2·x, or 3·x; with weights of its own."""
    save(path, [helper.make_node("Mul", ["x", "k"], ["y"])], [value("x")], [value("y")], {"k": np.float32(3 - right)})


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("scripts")
    words_of(folder / "texts.onnx", right=False)
    np.savez(folder / "texts.npz", word=np.array(["a", "b", "c"]), upper=np.array(["A", "B", "C"]), number=[1, 2, 3])
    in_parts(folder / "parts.onnx", right=False)
    (folder / "parts/test_data_set_0").mkdir(parents=True)
    for name, tensor in (("input_0", X[:2]),):
        proto = onnx.numpy_helper.from_array(tensor, "x")
        (folder / f"parts/test_data_set_0/{name}.pb").write_bytes(proto.SerializeToString())
    pair = onnx.numpy_helper.from_list([X[:2], 2 * X[:2]], "parts")
    (folder / "parts/test_data_set_0/output_0.pb").write_bytes(pair.SerializeToString())
    scaled(folder / "scaled.onnx", right=False)
    np.savez(folder / "scaled.npz", x=X, y=2 * X)
    onnx_models.external(folder / "external.onnx")
    np.savez(folder / "external.npz", x=X, y=X)
    reshaped = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    shape = {"shape": np.array([2, 3], "int64")}
    save(folder / "baked.onnx", reshaped, [value("x")], [value("y")], shape)
    np.savez(folder / "baked.npz", x=X, y=X)
    unknown = [helper.make_node("Missing", ["x"], ["y"], domain="com.example")]
    save(folder / "unknown.onnx", unknown, [value("x")], [value("y")], domains={"com.example": 1})
    np.savez(folder / "unknown.npz", x=X, y=X)
    joblib.dump(LinearRegression().fit(X, X[:, 0]), folder / "linear.joblib")
    save(folder / "linear.onnx", unknown, [value("x")], [value("y")], domains={"com.example": 1})
    onnx_models.divider(folder / "crash.onnx")
    low = np.array([np.iinfo(np.int32).min], np.int32)
    np.savez(folder / "crash.npz", a=low, b=np.array([-1], np.int32), y=low)
    wide = {"w": np.ones((512, 1024), "float32")}
    ends = [value("x", shape=["batch", 512])], [value("y", shape=["batch", 1024])]
    save(folder / "large.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], *ends, wide)
    np.savez(folder / "large.npz", x=np.ones((2, 512), "float32"), y=np.ones((2, 1024), "float32"))
    onnx_models.endless(folder / "hang.onnx")
    np.savez(folder / "hang.npz", x=X[:2], y=X[:2])
    return run_manifest(
        folder,
        """
        version: 1
        defaults: {repro: {data: true}}
        models:
          - {id: texts, source: texts.onnx, data: texts.npz}
          - {id: parts, source: parts.onnx, data: parts}
          - {id: scaled, source: scaled.onnx, data: scaled.npz}
          - {id: external, source: external.onnx, data: external.npz}
          - {id: baked, source: baked.onnx, data: baked.npz}
          - {id: unknown, source: unknown.onnx, data: unknown.npz}
          - {id: linear, source: linear.joblib, onnx: linear.onnx, batches: [2]}
          - {id: crash, source: crash.onnx, data: crash.npz}
          - {id: hang, source: hang.onnx, data: hang.npz, timeout: 6}
          - {id: hidden, source: scaled.onnx, data: scaled.npz, repro: true}
          - {id: off, source: scaled.onnx, data: scaled.npz, repro: false}
          - {id: large, source: large.onnx, data: large.npz, repro: {max_size: 1MiB, data: true}}
        """,
    )


FAILING = {
    "texts": (Status.DIVERGED, "upper: 1 of 3 labels differ; the first is 'X' instead of 'B' at [1]"),
    "parts": (Status.DIVERGED, "parts: 6 of 6 elements are out of tolerance"),
    "scaled": (Status.DIVERGED, "y: 120 of 120 elements are out of tolerance (rtol 0.001, atol 1e-05)"),
    "external": (Status.DIVERGED, "y: 80 of 120 elements are out of tolerance"),
    "baked": (Status.DIVERGED, "ONNX Runtime fails on these rows"),
    "unknown": (Status.ERROR, "ONNX Runtime can't load the model"),
    "linear": (Status.ERROR, "ONNX Runtime can't load the model"),
    "crash": (Status.ERROR, "ONNX Runtime crashes the process: SIGFPE"),
}


def test_labels_are_shown_as_people_write_them():
    """Not with the type that numpy has for them."""
    said = script.labels({"limits": {}}, np.array([0, 1, 2]), np.array([0, 2, 2]))
    assert said == ["1 of 3 labels differ; the first is 2 instead of 1 at [1]"]


@pytest.mark.parametrize("name", FAILING)
def test_the_script_shows_it_again(run, name):
    """Of labels, sequences, weights in files of their own, refusals, a model that can't be loaded, and a crash."""
    model, (verdict, told) = run[name], FAILING[name]
    assert (model.verdict, model.repro and model.repro.rows) == (verdict, ReproRows.FED), (model.error, model.notes)
    assert model.repro.folder == f"repro/{name}"
    code, said = call(run.output / model.repro.folder / "repro.py")
    assert (code, told in said) == (1, True), said


def test_a_hang_ends(run):
    """With an answer that says how long it was waited for."""
    model = run["hang"]
    assert model.cause is Cause.TIMEOUT
    described = run.output / "repro/hang/rows.json"
    stored = json.loads(described.read_text())
    assert stored["apart"] and stored["seconds"] == 20
    described.write_text(json.dumps({**stored, "seconds": 2}))
    assert call(run.output / "repro/hang/repro.py") == (1, "FAILS  ONNX Runtime does not answer within 2 s\n")


@pytest.mark.parametrize(("name", "make"), [("texts", words_of), ("parts", in_parts), ("scaled", scaled)])
def test_a_mended_model_passes(run, tmp_path, name, make):
    """Another file of the same interface."""
    make(tmp_path / "mended.onnx", right=True)
    code, said = call(run.output / f"repro/{name}/repro.py", tmp_path / "mended.onnx")
    assert (code, said) == (0, "PASSES the model answers as it should\n")


def test_without_packages_nothing_is_found_out(run):
    """An interpreter without NumPy must not say that the model fails."""
    command = [sys.executable, "-I", "-S", str(run.output / "repro/scaled/repro.py")]
    done = subprocess.run(command, capture_output=True, text=True, env={}, check=False)
    assert done.returncode == 2 and "install onnx, onnxruntime and numpy" in done.stderr


def test_misuse_is_neither_a_failure_nor_a_pass(run, tmp_path):
    """No such file, and a model with other inputs."""
    script = run.output / "repro/scaled/repro.py"
    assert call(script, tmp_path / "none.onnx")[0] == 2
    code, said = call(script, run.output / "repro/texts/model.onnx")
    assert code == 2 and "its inputs are ['word']" in said
    assert call(script, "--nonsense")[0] == 2


def test_rows_of_the_data_stay_out_unless_they_are_allowed(run):
    """Recorded answers have no source that could be asked for others."""
    model, folder = run["hidden"], run.output / "repro/hidden"
    assert (model.repro.rows, model.repro.left_out) == (ReproRows.NONE, (LeftOut.PRIVATE_ROWS,))
    assert not list(folder.glob("*.npz"))
    assert "`repro: {data: true}`" in (folder / "README.md").read_text()
    assert call(folder / "repro.py")[0] == 2
    assert words.shows_again(model.repro) == []


def test_a_model_that_is_too_large_is_not_kept(run):
    """A note says so."""
    model = run["large"]
    assert model.verdict is Status.DIVERGED and model.repro is None
    assert any("larger than `max_size`" in note for note in model.notes)


def test_nothing_is_left_where_it_is_turned_off(run):
    """The divergence is told as always."""
    assert run["off"].verdict is Status.DIVERGED and run["off"].repro is None
    assert not (run.output / "repro/off").exists()


def test_the_readme_names_both_scripts_and_their_codes(run):
    """In words for somebody who has only this folder."""
    text = (run.output / "repro/scaled/README.md").read_text()
    assert "python repro.py" in text and "Exit code 1: it fails." in text


def test_the_script_imports_nothing_of_ours():
    """Beside the standard library, NumPy and onnxruntime."""
    tree = ast.parse(Path(script.__file__).read_text())
    found = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert found - set(sys.stdlib_module_names) == {"numpy", "onnxruntime"}


def test_settings_go_in_as_a_literal():
    """Whatever an option is called, it is a text, and the rest of the script stays."""
    text = Path(script.__file__).read_text()
    hostile: dict[str, Any] = {"provider_options": {'"""\nimport os #': "'; raise SystemExit(7) #"}}
    filled = words.filled(text, hostile)
    tree = ast.parse(filled)
    (given,) = [
        node.value for node in tree.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "SETTINGS"
    ]
    assert given is not None and ast.literal_eval(given) == hostile
    assert len(tree.body) == len(ast.parse(text).body)
