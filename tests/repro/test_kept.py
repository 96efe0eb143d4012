"""What of a repro folder is taken from a worker, which numbers of it are believed, and what `merge` keeps."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from onnx_gate.gate.kept.offers import keep_mended
from onnx_gate.gate.numbers.models import model_contradictions
from onnx_gate.gate.output import OutputFolder
from onnx_gate.manifest.load import load_manifest
from onnx_gate.records.asked import ReproSpec
from onnx_gate.records.diagnosis.failing import Failing, FailingRow, RowInput, Shared
from onnx_gate.records.diagnosis.place import Mended
from onnx_gate.records.diagnosis.repro import Repro
from onnx_gate.records.found import Triage
from onnx_gate.records.result import ModelResult
from onnx_gate.records.result_scope import AskedModel
from onnx_gate.reports import junit, markdown
from onnx_gate.shards.merge_model import merge_row
from onnx_gate.vocabulary import Cause, LeftOut, ReproRows, Status
from onnx_gate.wording.repro import WHY, readme
from onnx_gate.worker.repro.feeds import OutOfTime, find_rows
from tests.golden.families import FAMILIES

TEXTS = {"repro.py": "ours", "README.md": "ours"}
REPRO = Repro(provider="cpu", model=True, rows=ReproRows.FED, place=True, folder="")
FAILING = Failing(
    provider="cpu",
    failing=3,
    passing=9,
    rows=(FailingRow(case="c", row=4, output="y", error=1.0, inputs=(RowInput(input="x", values=(1.5,), count=1),)),),
    shared=(Shared(what="a NaN in `x`", failing=3, others=0),),
)


def diverged() -> ModelResult:
    """A model that diverged on the CPU."""
    return next(model for model in FAMILIES["diverged"]().models if model.noise)


@pytest.mark.parametrize(
    "kind", ["files", "link", "second name", "too large", "linked folder", "linked target", "none"]
)
def test_plain_files_of_known_names_are_kept(tmp_path: Path, kind: str) -> None:
    """Scripts are the gate's own, whatever a worker leaves under their names."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with OutputFolder(tmp_path / "out") as folder:
        left = folder.scratch / "m/repro"
        left.parent.mkdir()
        if kind == "linked folder":
            left.symlink_to(elsewhere)
        elif kind != "none":
            left.mkdir()
            for name in ("repro.py", "place.py", "README.md", "evil.so", "model.onnx.x.data", "sitecustomize.py"):
                (left / name).write_text("theirs")
        if kind in ("files", "too large", "linked target"):
            (left / "model.onnx").write_bytes(b"x" * (3 * 1024 * 1024 if kind == "too large" else 9))
            (left / "rows.npz").write_bytes(b"x")
        if kind in ("link", "second name"):
            (elsewhere / "secret").write_text("secret")
            linked = left / "model.onnx"
            linked.symlink_to(elsewhere / "secret") if kind == "link" else linked.hardlink_to(elsewhere / "secret")
        if kind == "linked target":
            (tmp_path / "out/repro").mkdir()
            (tmp_path / "out/repro/m").symlink_to(elsewhere)
        assert folder.keep_repro("m", 1024 * 1024, TEXTS) is (kind == "files")
    kept = tmp_path / "out/repro/m"
    if kind == "files":
        assert {file.name: file.read_text() for file in kept.iterdir() if file.name in TEXTS} == TEXTS
        assert {file.name for file in kept.iterdir()} == {"model.onnx", "rows.npz", *TEXTS}
    else:
        assert not kept.exists() or not list(kept.glob("*.py"))


@pytest.mark.parametrize("wanted", [True, False])
def test_no_mended_file_is_kept_without_a_folder(wanted: bool) -> None:
    """`repro: false` asks for nothing in repro/."""
    spec: Any = SimpleNamespace(id="m", repro=ReproSpec() if wanted else None)
    mended = Mended(changes=("put the source's weights into `w`",), passes=True, checks=4)
    found: Any = SimpleNamespace(spec=spec, triage=Triage(cause=Cause.WEIGHTS, advice="It differs.", mended=mended))
    result: Any = SimpleNamespace(verdict=Status.DIVERGED)
    folder: Any = SimpleNamespace(keep_mended="repro/{}/mended.onnx".format)
    keep_mended(found, result, folder)
    assert found.triage.mended.file == ("repro/m/mended.onnx" if wanted else "")


def test_rows_that_nobody_had_time_to_try_are_no_rows_that_pass() -> None:
    """Whether the failure shows in a plain session is not known then."""
    call: Any = SimpleNamespace(first_row=0)
    case: Any = SimpleNamespace(name="batch=1", sizes={"batch": 1}, calls=lambda: iter([call]))
    prepared: Any = SimpleNamespace(cases=[case], hides=lambda _: False)
    with pytest.raises(OutOfTime):
        find_rows(prepared, ["batch=1"], {}, lambda *_: True, until=time.monotonic() - 1)
    assert "there was no time left" in WHY[LeftOut.NO_TIME]


def test_what_an_earlier_run_left_is_gone(tmp_path: Path) -> None:
    """It shows another failure; what is not the gate's stays."""
    folder = tmp_path / "out/repro/m"
    folder.mkdir(parents=True)
    ours = ("repro.py", "place.py", "README.md", "model.onnx", "model.onnx.0.data", "rows.npz", "place.json")
    for name in (*ours, "mine.txt"):
        (folder / name).touch()
    with OutputFolder(tmp_path / "out"):
        pass
    assert [file.name for file in folder.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"failing": 0, "rows": (), "shared": ()}, "none fails"),
        ({"provider": "cuda"}, "where nothing diverged"),
        ({"shared": (Shared(what="x", failing=4, others=0),)}, "more rows have a property"),
        ({"shared": (Shared(what="x", failing=3, others=10),)}, "more rows have a property"),
        ({"rows": FAILING.rows * 4}, "it shows 4 rows"),
        ({"private": True}, "left out"),
    ],
)
def test_rows_that_can_not_be_are_refused(changed: dict[str, object], told: str) -> None:
    """In a run, and where a result is read again."""
    model = diverged()
    assert list(model_contradictions(replace(model, failing=FAILING, repro=REPRO))) == []
    wrong = replace(model, failing=replace(FAILING, **changed))  # type: ignore[arg-type]
    assert any(told in reason for reason in model_contradictions(wrong))


def test_a_folder_is_the_models_own() -> None:
    """A result must not send anybody to another script."""
    wrong = replace(diverged(), repro=replace(REPRO, folder="../../home"))
    assert any("home" in reason for reason in model_contradictions(wrong))
    passed = FAMILIES["passed"]().models[0]
    assert any("shows a failure" in reason for reason in model_contradictions(replace(passed, repro=REPRO)))


def test_a_merged_result_names_no_folder_that_it_does_not_bring() -> None:
    """What the rows share is known; the files lie with the part that made them."""
    base = diverged()
    model = replace(base, failing=FAILING, repro=replace(REPRO, folder=f"repro/{base.id}"))
    asked = AskedModel(
        id=model.id,
        line=model.line,
        framework=model.framework,
        variant_of=None,
        allow_failure=False,
        providers={"cpu": False},
        min_strength=None,
        shard=1,
    )
    merged = merge_row(asked, [model], ())
    assert (merged.failing, merged.repro) == (FAILING, REPRO)


def test_every_report_names_the_script() -> None:
    """And what the rows share."""
    result = FAMILIES["diverged"]()
    model = replace(diverged(), failing=FAILING, repro=replace(REPRO, folder=f"repro/{diverged().id}"))
    result = replace(result, models=tuple(model if each.id == model.id else each for each in result.models))
    command = f"python repro/{model.id}/repro.py"
    page, xml = markdown.render(result), junit.render(result)
    assert command in page and command in xml
    words = "3 of 12 rows fail: all 3 failing rows have a NaN in `x`; none of the 9 others has."
    assert words in page and words in xml
    assert "row 4 of c (`y`: off by 1): `x` = \\[1.5]" in page
    assert model.verdict is Status.DIVERGED


def test_every_reason_has_words() -> None:
    """In the README of the folder."""
    assert set(WHY) == set(LeftOut)
    text = readme("m", replace(REPRO, left_out=tuple(LeftOut)), mended=True)
    assert all(words in text for words in WHY.values())
    assert "python repro.py mended.onnx" in text and "python place.py" in text


def test_a_folder_without_rows_promises_nothing() -> None:
    """Its script would only say that there is nothing to run."""
    text = readme("m", replace(REPRO, rows=ReproRows.NONE, place=False), mended=False)
    assert "has nothing to run yet" in text and "show that again" not in text


@pytest.mark.parametrize(
    ("defaults", "keys", "expected"),
    [
        ("", "", ReproSpec()),
        ("", ", repro: false", None),
        ("", ", repro: true", ReproSpec()),
        ("", ", repro: {data: true}", ReproSpec(data=True)),
        ("repro: {max_size: 2MiB}", "", ReproSpec(max_size=2 * 1024 * 1024)),
        ("repro: {data: true}", ", repro: {max_size: 1GiB}", ReproSpec(max_size=1024**3)),
    ],
)
def test_the_manifest_says_how_much_and_whether(
    tmp_path: Path, defaults: str, keys: str, expected: ReproSpec | None
) -> None:
    """A model's own key replaces that of the defaults as a whole."""
    (tmp_path / "m.onnx").touch()
    manifest = tmp_path / "onnx-gate.yml"
    manifest.write_text(f"version: 1\ndefaults: {{{defaults}}}\nmodels: [{{id: m, source: m.onnx{keys}}}]\n")
    (spec,) = load_manifest(manifest).models
    assert spec.repro == expected
