"""`onnx-gate init` as a command: what it writes, what it leaves alone, and what it survives."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import onnx
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeRegressor

from onnx_gate.cli.main import main
from onnx_gate.first_manifest.survey import Surveyor
from onnx_gate.first_manifest.text import QUESTION, quoted
from onnx_gate.first_manifest.workflow import PLACE, workflow_text
from onnx_gate.frameworks.sklearn.files.locales import is_there, locale_options
from onnx_gate.manifest.load import load_manifest
from tests.conftest import REPOSITORY
from tests.contract.test_layers import HEAVY
from tests.first_manifest.repositories import NETWORKS, linear, table

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository to begin with."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save_onnx(path: Path) -> None:
    """A small model."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(linear("batch", 4).SerializeToString())


def save_estimator(path: Path) -> None:
    """Two columns, by name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = table()
    joblib.dump(LogisticRegression().fit(frame[["age", "income"]], frame["bought"]), path)


def ids(manifest: str = "onnx-gate.yml") -> dict[str, str]:
    """The models that were written, with their sources."""
    return {model.id: model.source.shown for model in load_manifest(Path(manifest)).models}


def test_nothing_is_overwritten(top: Path, capsys: Capture) -> None:
    """Neither the manifest nor the workflow, and not one without the other."""
    save_onnx(top / "m.onnx")
    (top / "onnx-gate.yml").write_text("mine")
    assert main(["init"]) == 2
    assert "nothing is overwritten" in capsys.readouterr().err
    assert (top / "onnx-gate.yml").read_text() == "mine"
    (top / PLACE).parent.mkdir(parents=True)
    (top / PLACE).write_text("mine too")
    capsys.readouterr()
    assert main(["init", "--output", "other.yml", "--workflow"]) == 2
    assert not (top / "other.yml").exists()
    # Another name for the manifest would not help, so it isn't what the message says.
    assert "Fix: leave --workflow out, or move the file away first" in capsys.readouterr().err
    assert sorted(path.name for path in top.iterdir()) == [".git", ".github", "m.onnx", "onnx-gate.yml"]


@pytest.mark.parametrize("fixed", ["without the option", "with the file moved"])
def test_a_workflow_that_is_there_already_is_no_dead_end(top: Path, fixed: str) -> None:
    """Both ways that the message names lead to a manifest."""
    save_onnx(top / "m.onnx")
    (top / PLACE).parent.mkdir(parents=True)
    (top / PLACE).write_text("mine")
    assert main(["init", "--workflow"]) == 2
    if fixed == "with the file moved":
        (top / PLACE).rename(top / "old.yml")
    assert main(["init", *(["--workflow"] if fixed == "with the file moved" else [])]) == 0
    assert ids() == {"m": "m.onnx"}
    assert (top / ("old.yml" if fixed == "with the file moved" else PLACE)).read_text() == "mine"


def test_a_file_without_a_source_is_asked_about_once(top: Path, capsys: Capture) -> None:
    """It is compared with itself only, which proves little: the first has the question, the others point to it."""
    for name in ("a", "b", "c"):
        save_onnx(top / f"{name}.onnx")
    assert main(["init"]) == 0
    text = (top / "onnx-gate.yml").read_text()
    assert text.count(QUESTION) == 1
    assert f"{QUESTION}what was this file made of (2 more below are like this)? Without a source it is" in text
    assert text.count("# without a source it is compared with itself only: see the question above") == 2
    assert "answer the question (line" in capsys.readouterr().out.splitlines()[-1]


def test_recorded_answers_answer_the_question(top: Path) -> None:
    """Arrays that are called like the outputs are answers, and are not left out."""
    save_onnx(top / "m.onnx")
    np.savez(top / "rows.npz", features=np.zeros((5, 4), np.float32), scores=np.zeros((5, 2), np.float32), extra=[1.0])
    assert main(["init", "--data", "rows.npz"]) == 0
    assert QUESTION not in (top / "onnx-gate.yml").read_text()
    (model,) = load_manifest(Path("onnx-gate.yml")).models
    assert model.ignore_data == ("extra",)


def test_a_link_in_the_place_of_the_manifest_is_left_alone(top: Path) -> None:
    """Also one that leads nowhere: writing to it would make a file elsewhere."""
    save_onnx(top / "m.onnx")
    (top / "onnx-gate.yml").symlink_to(top / "elsewhere.yml")
    assert main(["init"]) == 2
    assert not (top / "elsewhere.yml").exists()


def test_without_models_nothing_is_written(top: Path, capsys: Capture) -> None:
    """Exit code 2, and what to do."""
    (top / "package.json").write_text("{}")
    assert main(["init"]) == 2
    assert "no model was found" in capsys.readouterr().err
    assert not (top / "onnx-gate.yml").exists()


def test_a_file_beside_its_source_is_checked_instead_of_converting(top: Path) -> None:
    """Of the same name and in the same folder; elsewhere it is a question."""
    save_estimator(top / "models/buyers.joblib")
    save_onnx(top / "models/buyers.onnx")
    save_estimator(top / "models/others.joblib")
    save_onnx(top / "export/others.onnx")
    assert main(["init"]) == 0
    models = {model.id: model for model in load_manifest(Path("onnx-gate.yml")).models}
    assert models["buyers"].onnx == str(top / "models/buyers.onnx")
    assert models["others"].onnx is None
    assert models["others-onnx"].framework == "onnx"
    assert (top / "onnx-gate.yml").read_text().count(QUESTION) == 1


def test_two_sources_of_one_name(top: Path) -> None:
    """Both are models, and nobody guesses which of them the .onnx was made of."""
    save_estimator(top / "m.joblib")
    save_estimator(top / "m.pkl")
    save_onnx(top / "m.onnx")
    save_onnx(top / "deep/M.onnx")
    assert main(["init"]) == 0
    assert set(ids().values()) == {"m.joblib", "m.pkl", "m.onnx", "deep/M.onnx"}
    assert all(model.onnx is None for model in load_manifest(Path("onnx-gate.yml")).models if model.framework != "onnx")
    # Both sources, and the file that has none.
    assert (top / "onnx-gate.yml").read_text().count(QUESTION) == 3


def test_columns_of_a_table_feed_the_model_that_was_fitted_on_them(top: Path) -> None:
    """The column of answers is no input."""
    save_estimator(top / "m.joblib")
    table().to_csv(top / "people.csv", index=False)
    assert main(["init", "--data", "people.csv"]) == 0
    (model,) = load_manifest(Path("onnx-gate.yml")).models
    assert model.data is not None and model.data.shown == "people.csv"
    assert model.columns == ("age", "income")


def account_table() -> pd.DataFrame:
    """Whole numbers that float32 would change, beside others."""
    frame = table()
    return frame.assign(account=20_000_001 + 2 * np.arange(len(frame)))


def test_whole_numbers_that_float32_would_change_stay_whole(top: Path) -> None:
    """A run refuses to change them, so the manifest declares such a column as int64."""
    frame = account_table()
    reader = ColumnTransformer([("as it is", "passthrough", ["age", "account"]), ("words", OneHotEncoder(), ["city"])])
    joblib.dump(make_pipeline(reader, LogisticRegression()).fit(frame, frame["bought"]), top / "m.joblib")
    frame.to_csv(top / "rows.csv", index=False)
    assert main(["init", "--data", "rows.csv"]) == 0
    (model,) = load_manifest(Path("onnx-gate.yml")).models
    types = {given.name: given.dtype for given in model.inputs or ()}
    assert types == {"age": "float32", "account": "int64", "city": "string"}


def test_a_matrix_that_cannot_hold_the_numbers_is_not_fed_with_them(top: Path) -> None:
    """Trees of scikit-learn run on float32 only; other columns of the table don't matter."""
    frame = account_table()
    for name, columns in (("accounts", ["age", "account"]), ("ages", ["age", "income"])):
        model = DecisionTreeRegressor(max_depth=2).fit(frame[columns], frame["bought"])
        joblib.dump(model, top / f"{name}.joblib")
    frame.to_csv(top / "rows.csv", index=False)
    assert main(["init", "--data", "rows.csv"]) == 0
    models = {model.id: model for model in load_manifest(Path("onnx-gate.yml")).models}
    assert {name: bool(model.data) for name, model in models.items()} == {"accounts": False, "ages": True}
    assert all(given.dtype == "float32" for model in models.values() for given in model.inputs or ())
    assert "rows.csv is left out: float32, which this model takes" in Path("onnx-gate.yml").read_text()


@pytest.mark.extras
def test_a_booster_gets_its_matrix_in_float64(top: Path) -> None:
    """It holds the whole numbers; the columns are those in the pickle of the booster."""
    import lightgbm

    frame = account_table()
    model = lightgbm.LGBMRegressor(n_estimators=2, verbose=-1, min_child_samples=2)
    joblib.dump(model.fit(frame[["age", "account"]], frame["bought"]), top / "pickled.joblib")
    model.booster_.save_model(top / "file.txt")
    frame.to_csv(top / "rows.csv", index=False)
    assert main(["init", "--data", "rows.csv"]) == 0
    (file, pickled) = load_manifest(Path("onnx-gate.yml")).models
    assert (file.columns, [given.dtype for given in file.inputs or ()]) == (("age", "account"), ["float64"])
    # An estimator is converted with scikit-learn's converters, whose trees take float32 only.
    assert (pickled.data, [given.dtype for given in pickled.inputs or ()]) == (None, ["float32"])


def test_columns_that_only_fit_by_their_number_have_no_gaps(top: Path) -> None:
    """Most models refuse missing values, and nothing says that these are the right columns."""
    joblib.dump(LogisticRegression().fit(np.eye(4)[:, :2], [0, 1, 0, 1]), top / "m.joblib")
    for name, age in (("whole.csv", "3"), ("gaps.csv", "")):
        (top / name).write_text(f"age,income,city\n1,2,rome\n{age},4,oslo\n")
        assert main(["init", "--data", name, "--output", f"{name}.yml"]) == 0
        (model,) = load_manifest(Path(f"{name}.yml")).models
        assert bool(model.data) == (name == "whole.csv")


def test_a_table_does_not_replace_inputs_that_are_known(top: Path) -> None:
    """The size of an image is a question, the number of its channels is not."""
    (top / "net.py").write_text(NETWORKS + "\n\ndef photo():\n    return Photo()\n")
    (top / "rows.csv").write_text("a,b\n1,2\n")
    assert main(["init", "--data", "rows.csv"]) == 0
    models = {model.id: model for model in load_manifest(Path("onnx-gate.yml")).models}
    assert not any(model.data for model in models.values())
    assert [given.shape for given in models["net-py"].inputs or ()] == [("batch", 3, 32, 32)]


def test_an_export_says_the_inputs_of_its_source(top: Path) -> None:
    """Where the code says nothing of them; several inputs of these names are no chance."""
    (top / "net.py").write_text(PAIR)
    value = onnx.helper.make_tensor_value_info
    inputs = [value("words", 7, ["b", "t"]), value("share", 1, ["b", "t"])]
    nodes = [onnx.helper.make_node("Cast", ["words"], ["w"], to=1), onnx.helper.make_node("Mul", ["w", "share"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "g", inputs, [value("y", 1, ["b", "t"])])
    (top / "export").mkdir()
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(made, "export/pair.onnx")
    assert main(["init"]) == 0
    source = next(model for model in load_manifest(Path("onnx-gate.yml")).models if model.framework == "torch")
    described = {given.name: (given.dtype, given.shape, given.range) for given in source.inputs or ()}
    assert described == {"words": ("int64", ("batch", "t"), (0, 8)), "share": ("float32", ("batch", "t"), None)}
    assert "# from export/pair.onnx, which has inputs of these names" in Path("onnx-gate.yml").read_text()


PAIR = """\
from torch import nn


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 4)

    def forward(self, words, share):
        return self.table(words).sum(-1) * share


def build():
    return Pair()
"""


def test_another_factory_says_nothing_of_a_model(top: Path) -> None:
    """Two models of one file, whose inputs have the same name."""
    text = NETWORKS.replace("image", "x") + "\n\ndef photo():\n    return Photo()\n"
    text += "\n\ndef dense():\n    return nn.Sequential(nn.Linear(10, 2))\n"
    (top / "net.py").write_text(text)
    assert main(["init"]) == 0
    models = {model.source.shown: model for model in load_manifest(Path("onnx-gate.yml")).models}
    assert [given.shape for given in models["net.py:photo"].inputs or ()] == [("batch", 3, 32, 32)]
    assert [given.shape for given in models["net.py:dense"].inputs or ()] == [("batch", 10)]


def test_the_same_question_is_asked_once(top: Path) -> None:
    """For two forms of one model; the second has a note."""
    for name in ("one", "two"):
        text = NETWORKS.replace("def build():\n    return Tagger()", "def build():\n    return Photo()")
        (top / f"{name}.py").write_text(text)
    assert main(["init"]) == 0
    text = Path("onnx-gate.yml").read_text()
    assert text.count(f"{QUESTION}how large is `image`?") == 1
    assert text.count("# the question at one is about this model too") == 1


def test_arrays_feed_the_inputs_of_their_names(top: Path) -> None:
    """Of an .npz; what is in it besides is ignored by name."""
    save_onnx(top / "m.onnx")
    np.savez(top / "rows.npz", features=np.zeros((5, 4), np.float32), weight=np.zeros(3))
    assert main(["init", "--data", "rows.npz"]) == 0
    (model,) = load_manifest(Path("onnx-gate.yml")).models
    assert model.ignore_data == ("weight",)


def test_data_that_fits_no_model_is_said_so(top: Path) -> None:
    """The manifest is written without it."""
    save_onnx(top / "m.onnx")
    np.save(top / "rows.npy", np.zeros((5, 9), np.float32))
    assert main(["init", "--data", "rows.npy"]) == 0
    assert "rows.npy: no model takes" in (top / "onnx-gate.yml").read_text()


def test_a_second_data_file_is_not_dropped_in_silence(top: Path, capsys: Capture) -> None:
    """The first one would be replaced."""
    save_onnx(top / "m.onnx")
    with pytest.raises(SystemExit):
        main(["init", "--data", "a.npz", "--data", "b.npz"])
    assert "--data was given twice" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["missing.csv", "broken.npz", "table.xlsx", "."])
def test_data_that_cannot_be_read_is_the_callers_mistake(top: Path, name: str, capsys: Capture) -> None:
    """Nothing is written."""
    save_onnx(top / "m.onnx")
    (top / "broken.npz").write_bytes(b"PK no archive")
    (top / "table.xlsx").write_bytes(b"PK")
    assert main(["init", "--data", name]) == 2
    assert f"--data {name}: " in capsys.readouterr().err
    assert not (top / "onnx-gate.yml").exists()


def test_the_workflow_is_that_of_the_examples(top: Path) -> None:
    """For a manifest in a folder, it names it from the top."""
    save_onnx(top / "sub/m.onnx")
    assert main(["init", "sub", "--output", "sub/gate.yml", "--workflow"]) == 0
    assert "manifest: sub/gate.yml" in (top / PLACE).read_text()
    example = REPOSITORY / "examples/workflows/cpu.yml"
    assert workflow_text("onnx-gate.yml") == example.read_text(encoding="utf-8")
    assert ids("sub/gate.yml") == {"m": "m.onnx"}


FACTORY = """\
from pathlib import Path
from sklearn.linear_model import LogisticRegression

Path("{mark}").touch()

def build():
    return LogisticRegression().fit([[0, 0, 1], [1, 1, 0]], [0, 1])
"""


def test_code_runs_only_where_load_allows_it(top: Path, capsys: Capture) -> None:
    """Without it the number of columns is a question."""
    (top / "train.py").write_text(FACTORY.format(mark=top / "ran"))
    assert main(["init"]) == 0
    assert not (top / "ran").exists()
    assert (top / "onnx-gate.yml").read_text().count(QUESTION) == 1
    assert "answer the question" in capsys.readouterr().out.splitlines()[-1]
    assert main(["init", "--load", "--output", "loaded.yml"]) == 0
    assert (top / "ran").exists()
    assert QUESTION not in (top / "loaded.yml").read_text()
    (model,) = load_manifest(Path("loaded.yml")).models
    assert model.inputs is not None and model.inputs[0].shape == ("batch", 3)
    assert capsys.readouterr().out.splitlines()[-1] == "Next: onnx-gate run loaded.yml"


def test_the_parent_imports_no_framework(top: Path) -> None:
    """Neither numpy nor onnx."""
    save_estimator(top / "m.joblib")
    save_onnx(top / "o.onnx")
    code = (
        "import json, sys\nfrom onnx_gate.cli.main import main\ncode = main(['init'])\n"
        "print(json.dumps(sorted(sys.modules)), file=open('seen.json', 'w'))\nsys.exit(code)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    assert set(json.loads((top / "seen.json").read_text())) & HEAVY == set()


HOSTILE = [
    "with space.onnx",
    "quote'\".onnx",
    "colon: x.onnx",
    "{a: b}.onnx",
    "- dash.onnx",
    "#comment.onnx",
    "%TAG !.onnx",
    "new\nline: x\nmodels:.onnx",
    "\x1b[31mred.onnx",
    "line\u2028separator\x85.onnx",
    "::error::hi.onnx",
    "emoji\U0001f600.onnx",
    "*alias &anchor.onnx",
    "null.onnx",
    "a..onnx.onnx",
    "x" * 240 + ".onnx",
]


def test_names_of_files_stay_names(top: Path, capsys: Capture) -> None:
    """Whatever they look like in YAML, in a comment, or on a console; what a manifest can't name is left out."""
    for name in HOSTILE:
        save_onnx(top / "models" / name)
    save_onnx(top / "good.onnx")
    assert main(["init"]) == 0
    written = set(ids().values())
    assert "good.onnx" in written
    colons = {name for name in HOSTILE if ":" in name}
    assert written >= {f"models/{name}" for name in HOSTILE if name not in colons}
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert (top / "onnx-gate.yml").read_text().count("its name holds a colon") == len(colons)
    assert not any(line.startswith("::") for line in out.splitlines())


def test_a_name_that_is_no_text_is_left_out(top: Path) -> None:
    """With what to do."""
    save_onnx(top / "good.onnx")
    (top / "good.onnx").rename(os.fsdecode(os.fsencode(top / "bad") + b"\xff.onnx"))
    save_onnx(top / "good.onnx")
    assert main(["init"]) == 0
    assert ids() == {"good": "good.onnx"}
    assert "rename it" in (top / "onnx-gate.yml").read_text()


@pytest.mark.parametrize("text", HOSTILE)
def test_a_quoted_text_is_read_as_it_was(text: str) -> None:
    """By the reader of manifests, which knows YAML 1.2."""
    from ruamel.yaml import YAML

    line = f"- {quoted(text)}\n"
    assert line.count("\n") == 1
    assert YAML(typ="safe").load(line) == [text]


def test_what_is_not_the_users_is_skipped(top: Path) -> None:
    """Environments, packages, Git's own, what the gate has written."""
    for folder in (".git", "node_modules/x", "env", "lib/site-packages/y", ".cache", "onnx-gate-report/models"):
        save_onnx(top / folder / "m.onnx")
    (top / "env/pyvenv.cfg").touch()
    for name in ("junit.xml", "summary.md", "report.html", "results.json"):
        (top / "onnx-gate-report" / name).touch()
    save_onnx(top / "mine.onnx")
    assert main(["init"]) == 0
    assert ids() == {"mine": "mine.onnx"}


def test_links_do_not_lead_out_of_the_repository(top: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nor in circles; one within it counts as its target."""
    outside = tmp_path_factory.mktemp("outside")
    save_onnx(outside / "secret.onnx")
    (top / "out.onnx").symlink_to(outside / "secret.onnx")
    (top / "folder").symlink_to(outside)
    (top / "circle").symlink_to(top)
    save_onnx(top / "mine.onnx")
    (top / "same.onnx").symlink_to(top / "mine.onnx")
    (top / "broken.onnx").symlink_to(top / "nowhere.onnx")
    assert main(["init"]) == 0
    assert ids() == {"mine": "mine.onnx"}
    assert "out.onnx: a link that leaves the repository" in (top / "onnx-gate.yml").read_text()
    assert main(["init", str(outside), "--output", "other.yml"]) == 2


def test_a_pipe_does_not_make_it_wait(top: Path) -> None:
    """It is no file."""
    os.mkfifo(top / "pipe.onnx")
    save_onnx(top / "mine.onnx")
    assert main(["init"]) == 0
    assert ids() == {"mine": "mine.onnx"}


def test_a_huge_file_costs_nothing(top: Path) -> None:
    """Neither one of 20 GB with nothing in it, nor a model whose weights are that large."""
    content = linear("batch", 4).SerializeToString()
    with (top / "huge.onnx").open("wb") as file:
        file.write(content)
        # A field that nobody knows, of 20 GB: tag, length, a hole.
        file.write(bytes([15 << 3 | 2]) + _varint(20 * 2**30))
        file.truncate(file.tell() + 20 * 2**30)
    with (top / "hole.joblib").open("wb") as file:
        file.truncate(20 * 2**30)
    assert main(["init"]) == 0
    assert ids() == {"huge": "huge.onnx"}


def _varint(value: int) -> bytes:
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def test_a_file_that_takes_too_long_costs_that_file(top: Path) -> None:
    """The process is ended, and the next one goes on behind it."""
    save_onnx(top / "a.onnx")
    (top / "b.pkl").write_bytes(b"\x80\x04" + b"N0" * 25_000_000)
    save_onnx(top / "c.onnx")
    surveyor = Surveyor(environ=dict(os.environ), isolation="none", patience=10.0)
    looks = surveyor.look([top / name for name in ("a.onnx", "b.pkl", "c.onnx")])
    assert [bool(look.seen) for look in looks] == [True, False, True]
    assert looks[1].problem == "it took too long to read"


def test_ten_thousand_files(top: Path) -> None:
    """In one process; what is no model costs a look at its first bytes."""
    for number in range(10_000):
        folder = top / f"part{number % 50}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.{('json', 'txt', 'py', 'bin')[number % 4]}").write_text('{"a": 1}\n')
    save_onnx(top / "part7/mine.onnx")
    assert main(["init"]) == 0
    assert ids() == {"mine": "part7/mine.onnx"}


def test_very_many_models_are_cut_with_a_word(top: Path) -> None:
    """A manifest has a largest size."""
    content = linear("batch", 4).SerializeToString()
    for number in range(520):
        (top / f"m{number}.onnx").write_bytes(content)
    assert main(["init"]) == 0
    assert len(ids()) == 500
    assert "20 models more were found" in (top / "onnx-gate.yml").read_text()


def test_what_cannot_be_a_source_is_said_with_the_reason(top: Path) -> None:
    """Broken files, pointers, other objects, and models under other names."""
    save_onnx(top / "mine.onnx")
    (top / "broken.pkl").write_bytes(b"\x80\x04broken")
    (top / "dict.pkl").write_bytes(pickle.dumps({"model": 1}))
    (top / "pointer.joblib").write_text("version https://git-lfs.github.com/spec/v1\n")
    save_estimator(top / "model.sav")
    onnx.save(linear(2, 2), top / "model.bin")
    (top / "requirements.txt").write_text("")
    assert main(["init"]) == 0
    assert ids() == {"mine": "mine.onnx"}
    text = (top / "onnx-gate.yml").read_text()
    for line in (
        "broken.pkl: a pickle: its pickle can't be read",
        "dict.pkl: a pickle: it holds a dict",
        "pointer.joblib: a Git LFS pointer: run `git lfs pull`",
        "model.sav: a LogisticRegression of scikit-learn, by its content; rename it to end in .joblib",
        "model.bin: an ONNX model, by its content; rename it to end in .onnx",
    ):
        assert f"# - {line}" in text
    assert "requirements.txt" not in text


def test_a_manifest_that_would_be_too_large_is_cut(top: Path) -> None:
    """A manifest may have 1 MiB: names of columns can take more."""
    frame = pd.DataFrame(np.zeros((3, 600)), columns=["c" * 1900 + str(number) for number in range(600)])
    columns = ColumnTransformer([("all", "passthrough", list(frame.columns))]).fit(frame)
    save_onnx(top / "a.onnx")
    joblib.dump(columns, top / "wide.joblib")
    assert main(["init"]) == 0
    assert ids() == {"a": "a.onnx"}
    assert "wide.joblib: the manifest would be too large" in (top / "onnx-gate.yml").read_text()


def test_dimensions_of_a_file_have_sizes_to_try(top: Path, capsys: Capture) -> None:
    """Without them `check` finds no problem, and `run` can't feed the file."""
    shape = ["n", "seq", None, 3]
    value = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("Neg", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "g", [value("x", 1, shape)], [value("y", 1, shape)])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), "net.onnx")
    assert main(["init"]) == 0
    assert load_manifest(Path("onnx-gate.yml")).models[0].dims == {"seq": (32, 64), "x_dim2": (32, 64)}
    assert main(["run", "--output", "report"]) == 0, capsys.readouterr()


@pytest.mark.parametrize(
    ("element", "shape", "sizes"),
    [
        (1, ["n", 3, "height", "width"], {"height": (32, 64), "width": (32, 64)}),
        (1, ["n", 8, "past", 16], {"past": (1, 16)}),
        (1, ["n", 2, "samples"], {"samples": (16, 32)}),
        (1, ["n", "steps", 5], {"steps": (1, 16)}),
        (7, ["n", "tokens"], {"tokens": (1, 16)}),
    ],
    ids=["image", "cache", "signal", "sequence", "tokens"],
)
def test_sizes_suit_the_kind_of_input(top: Path, element: int, shape: list[str | int | None], sizes: object) -> None:
    """A convolution does not answer an image of one pixel."""
    value = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("Neg", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "g", [value("x", element, shape)], [value("y", element, shape)])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), "net.onnx")
    assert main(["init"]) == 0
    assert load_manifest(Path("onnx-gate.yml")).models[0].dims == sizes


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ((), {}),
        (("en_US.UTF-8",), {}),
        (("C.UTF-8",), {"options": {"TfidfVectorizer": {"locale": "C.UTF-8"}}}),
        (("en_US.UTF-8", "C.UTF-8"), {}),
    ],
)
def test_a_locale_is_named_only_if_the_default_is_missing(there: tuple[str, ...], expected: object) -> None:
    """A text model must load on this machine; where it does, nothing is added to the manifest."""
    options, note = locale_options(["TfidfVectorizer", "TfidfVectorizer"], there.__contains__)
    assert options == expected
    assert bool(note) == bool(options)
    assert locale_options([], there.__contains__) == ({}, "")


def test_a_text_model_loads_on_this_machine(top: Path) -> None:
    """Only vectorizers that lower texts ask for a locale; a file that is checked instead has its own."""
    texts = ["good film", "bad film"] * 3
    for name, lowercase in (("lower", True), ("given", False), ("shipped", True)):
        model = make_pipeline(TfidfVectorizer(lowercase=lowercase), LogisticRegression()).fit(texts, [1, 0] * 3)
        joblib.dump(model, top / f"{name}.joblib")
    save_onnx(top / "shipped.onnx")
    assert main(["init"]) == 0
    models = {model.id: model for model in load_manifest(Path("onnx-gate.yml")).models}
    needed = not is_there("en_US.UTF-8") and is_there("C.UTF-8")
    options = {"options": {"TfidfVectorizer": {"locale": "C.UTF-8"}}} if needed else {}
    assert {name: model.convert for name, model in models.items()} == {"lower": options, "given": {}, "shipped": {}}
    assert ("# this machine lacks the locale en_US.UTF-8" in Path("onnx-gate.yml").read_text()) == needed


@pytest.mark.extras
def test_a_pickled_booster_says_its_columns(top: Path) -> None:
    """The estimator keeps no names, its booster does: in a pickle, and in the binary form of a file."""
    import lightgbm
    import xgboost

    frame = pd.DataFrame({"age": [30.0, 40.0, 50.0, 60.0] * 5, "income": range(20)})
    model = xgboost.XGBRegressor(n_estimators=2).fit(frame, frame["age"])
    joblib.dump(model, top / "pickled.joblib", compress=3)
    model.save_model(top / "binary.ubj")
    joblib.dump(lightgbm.LGBMRegressor(n_estimators=2, verbose=-1).fit(frame, frame["age"]), top / "light.joblib")
    frame.assign(id=range(20), member=[True, False] * 10).to_csv(top / "rows.csv", index=False)
    assert main(["init", "--data", "rows.csv"]) == 0
    assert QUESTION not in Path("onnx-gate.yml").read_text()
    for spec in load_manifest(Path("onnx-gate.yml")).models:
        assert spec.columns == ("age", "income"), spec.id


def test_truth_values_are_numbers(top: Path) -> None:
    """What a converter takes: bools are refused by most."""
    frame = pd.DataFrame({"age": [30.0, 40.0] * 5, "member": [True, False] * 5, "city": ["rome", "oslo"] * 5})
    reader = ColumnTransformer([("as it is", "passthrough", ["age"]), ("words", OneHotEncoder(), ["member", "city"])])
    joblib.dump(make_pipeline(reader, LogisticRegression()).fit(frame, [1, 0] * 5), top / "m.joblib")
    frame.to_csv(top / "rows.csv", index=False)
    assert main(["init", "--data", "rows.csv"]) == 0
    (model,) = load_manifest(Path("onnx-gate.yml")).models
    assert {given.name: given.dtype for given in model.inputs or ()} == {
        "age": "float32",
        "member": "float32",
        "city": "string",
    }
