"""What files say of their inputs, in each of their forms; nothing of them is loaded."""

from __future__ import annotations

import contextlib
import pickle
import zlib
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from onnx_gate.records.seen import Seen
from onnx_gate.worker.contents.code import Code
from onnx_gate.worker.contents.files import all_files
from onnx_gate.worker.contents.pickles import NotRead, Thing, read_pickle
from onnx_gate.worker.contents.tables import look_at_data
from onnx_gate.worker.survey import look
from tests.first_manifest.repositories import NETWORKS, linear, table


def seen_in(path: Path) -> Seen:
    """The one thing that a file holds."""
    (seen,) = look(path, all_files())
    return seen


def described(seen: Seen) -> dict[str, tuple[str, tuple[int | str, ...]]]:
    """The inputs by name."""
    return {given.name: (given.dtype, given.shape) for given in seen.inputs}


def fitted() -> Any:
    """Numbers and words, in a pipeline."""
    frame = table()
    columns = ColumnTransformer([("n", StandardScaler(), ["age"]), ("w", OneHotEncoder(), ["city"])])
    return make_pipeline(columns, LogisticRegression()).fit(frame[["age", "city"]], frame["bought"])


@pytest.mark.parametrize("compress", [0, 3, ("gzip", 3), ("bz2", 3), ("xz", 3)])
def test_a_joblib_file_packed_or_not(tmp_path: Path, compress: Any) -> None:
    """Its arrays stand in the stream as bytes, which are passed over."""
    joblib.dump(fitted(), tmp_path / "model.joblib", compress=compress)
    seen = seen_in(tmp_path / "model.joblib")
    assert described(seen) == {"age": ("float32", ("batch", 1)), "city": ("string", ("batch", 1))}
    assert seen.columns == ("age", "city")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_of_every_protocol(tmp_path: Path, protocol: int) -> None:
    """Also the old ones, which are text."""
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(fitted(), protocol))
    assert set(described(seen_in(tmp_path / "model.pkl"))) == {"age", "city"}


def test_a_search_says_what_its_best_estimator_takes(tmp_path: Path) -> None:
    """The search itself may not keep it."""
    frame = table()
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1]}, cv=2).fit(
        frame[["age", "income"]].to_numpy(), frame["bought"]
    )
    joblib.dump(search, tmp_path / "model.joblib")
    assert described(seen_in(tmp_path / "model.joblib")) == {"X": ("float32", ("batch", 2))}


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return (Path.touch, (self.target,))


def test_nothing_in_a_pickle_is_executed(tmp_path: Path) -> None:
    """Its opcodes are read, and it is no estimator."""
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    assert seen_in(tmp_path / "model.pkl").role == "other"
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"\x80",
        b"\x80\x04",
        b"\x80\x04.",
        b"\x80\x04}",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x80\x04e.",
        b"\x80\x04h\xff.",
        b"\x80\x04(((((u.",
        b"\x80\x04cos\nsystem\n(S'true'\ntR",
        zlib.compress(b"no pickle"),
        b"\x1f\x8b broken",
        b"c" * 1000,
    ],
)
def test_a_broken_pickle_is_left_out_with_the_reason(tmp_path: Path, content: bytes) -> None:
    """Whatever breaks, it is one sentence."""
    (tmp_path / "model.pkl").write_bytes(content)
    try:
        seen = seen_in(tmp_path / "model.pkl")
    except Exception as error:
        assert not isinstance(error, MemoryError)
    else:
        assert seen.role == "other"


def test_a_pickle_that_holds_itself_is_read_once(tmp_path: Path) -> None:
    """A list in itself would never end."""
    import io

    from onnx_gate.worker.contents.pickles import walk

    around: list[Any] = []
    around.append(around)
    assert list(walk(read_pickle(io.BytesIO(pickle.dumps(around))))) == []
    with pytest.raises(NotRead):
        read_pickle(io.BytesIO(b"\x80\x04"))
    thing = read_pickle(io.BytesIO(pickle.dumps(Path("x"))))
    assert isinstance(thing, Thing) and "Path" in thing.name


def test_an_onnx_file_is_read_without_its_weights(tmp_path: Path) -> None:
    """By its content also where it is called otherwise."""
    content = linear("batch", 4).SerializeToString()
    for name in ("model.onnx", "model.bin"):
        (tmp_path / name).write_bytes(content)
        assert described(seen_in(tmp_path / name)) == {"features": ("float32", ("batch", 4))}
    (tmp_path / "half.onnx").write_bytes(content[: len(content) // 2])
    assert seen_in(tmp_path / "half.onnx").role == "other"


def test_a_saved_model_is_read_without_its_framework(tmp_path: Path) -> None:
    """A message with one signature, written by hand: field numbers and lengths."""

    def part(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    def number(field: int, value: int) -> bytes:
        return bytes([field << 3, value])

    unknown = part(2, bytes([1 << 3]) + b"\xff" * 9 + b"\x01")
    shape = unknown + part(2, number(1, 7))
    info = part(1, b"serving:0") + number(2, 1) + part(3, shape)
    signature = part(1, part(1, b"features") + part(2, info))
    graph = part(5, part(1, b"serving_default") + part(2, signature))
    (tmp_path / "export").mkdir()
    (tmp_path / "export/saved_model.pb").write_bytes(number(1, 1) + part(2, graph))
    seen = seen_in(tmp_path / "export")
    assert described(seen) == {"features": ("float32", ("batch", 7))}


def test_a_git_lfs_pointer_is_no_model(tmp_path: Path) -> None:
    """With what to do."""
    (tmp_path / "model.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n")
    assert "git lfs pull" in seen_in(tmp_path / "model.onnx").reason


def test_code_says_which_inputs_a_module_takes() -> None:
    """By the first layer that a parameter reaches, also inside of a module of the user's own."""
    code = Code(NETWORKS)
    built = all_files()["torch"].built
    seen = {made.callable: found for made in code.makers() if (found := built(code, made))}
    assert set(seen) == {"build", "Pair", "Photo"}
    (tokens,) = seen["build"].inputs
    assert (tokens.name, tokens.dtype, tokens.shape, tokens.range) == ("tokens", "int64", ("batch", "seq"), (0, 49))
    assert seen["Photo"].question
    assert set(seen["build"].parts) == {"embedding", "block", "head"}


def test_a_mask_has_the_shape_of_its_sequence() -> None:
    """Its dtype stays a question; a mask without a sequence is unknown."""
    text = NETWORKS.replace("def forward(self, words, share):", "def forward(self, words, pad_mask):")
    code = Code(text.replace("share.unsqueeze", "pad_mask.unsqueeze"))
    built = all_files()["torch"].built
    (pair,) = (found for made in code.makers() if made.callable == "Pair" and (found := built(code, made)))
    assert [(given.dtype, given.shape) for given in pair.inputs] == [("int64", ("batch", "seq"))] * 2
    assert pair.question == "which dtype does `pad_mask` have? int64 is a guess"


@pytest.mark.parametrize(
    "text", ["def f(:", "(" * 5000, "class A(A): pass\ndef f(): return A()", "\0", "x = " + "-" * 3000 + "1"]
)
def test_code_that_is_none_is_passed_over(tmp_path: Path, text: str) -> None:
    """Or raises, which costs this file alone."""
    (tmp_path / "code.py").write_text(text)
    with contextlib.suppress(RecursionError, MemoryError):
        assert list(look(tmp_path / "code.py", all_files())) == []


def test_types_of_the_columns_of_a_table(tmp_path: Path) -> None:
    """An empty cell is a number that is missing; a word makes the whole column text."""
    (tmp_path / "t.csv").write_text("a,b,c,d,e\n1,1.5,x,True,\n2,,1,False,3\n")
    data = look_at_data(tmp_path / "t.csv")
    types = {"a": "int64", "b": "float32", "c": "string", "d": "bool", "e": "float32"}
    assert {column.name: column.dtype for column in data.columns} == types
    assert {column.name for column in data.columns if column.has_gaps} == {"b", "e"}


def test_a_parquet_file_is_read_like_a_csv_file(tmp_path: Path) -> None:
    """With its own types: categories are text, whole numbers with gaps are numbers."""
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [1, 2], "b": [1.5, 2], "c": ["x", "y"], "d": [True, False], "e": [2**24 + 1, 3]})
    frame["f"], frame["g"] = frame["c"].astype("category"), pd.array([1, None], dtype="Int64")
    frame.to_parquet(tmp_path / "t.parquet")
    data = look_at_data(tmp_path / "t.parquet")
    types = {"a": "int64", "b": "float32", "c": "string", "d": "bool", "e": "int64", "f": "string", "g": "float32"}
    assert data.is_table
    assert {column.name: column.dtype for column in data.columns} == types
    assert [column.name for column in data.columns if column.is_large] == ["e"]
    assert [column.name for column in data.columns if column.has_gaps] == ["g"]


def test_whole_numbers_that_float32_changes_are_seen(tmp_path: Path) -> None:
    """A large number that float32 holds exactly is none of them."""
    (tmp_path / "t.csv").write_text(f"a,b,c,d\n1,{2**24},{2**24 + 1},{-(10**18) + 1}\n2,{2**40},3,4\n")
    assert [column.is_large for column in look_at_data(tmp_path / "t.csv").columns] == [False, False, True, True]
