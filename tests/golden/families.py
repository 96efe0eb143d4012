"""The families: one result each, of a kind that the reports have to tell well."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from onnx_gate.gate.coverage import state_coverage
from onnx_gate.gate.strength.limit import judge_strength, warn_of_strength
from onnx_gate.records.asked import ManifestWarning, Tolerance
from onnx_gate.records.diagnosis.place import Along, Mended, Place, PlaceFault, PlaceNode
from onnx_gate.records.diagnosis.plots import ByRow, Histogram, Matrix, Pairs, Plot
from onnx_gate.records.found import ConvertInfo, Worst
from onnx_gate.records.ran import Elsewhere, Latency, Noise, Numerics, Placement, RunToRun, Timing
from onnx_gate.records.result import Cached, Check, GateResult, ModelResult, Part, ProviderState
from onnx_gate.records.strength import Strength, Survivors
from onnx_gate.vocabulary import BreachKind, Cause, Status
from tests.golden.history import history
from tests.golden.records import (
    breach,
    breaches_of,
    error,
    floats,
    gate,
    given_rows,
    labels,
    model,
    skip,
    strength_of,
)

CONVERSION = (
    "The converted model doesn't compute what the source computes, with optimisations on or off: the converter "
    "translates a part of it differently, or rounds where it matters (float64 to float32)."
)
TRAIN_MODE = "The source answers as in training: dropout is on. Call model.eval() in the factory."
CONVERTED = ConvertInfo(opset=18, ir_version=10, nodes=42, size_bytes=148450, seconds=1.1, shipped=False)
SHIPPED = ConvertInfo(opset=17, ir_version=8, nodes=1, size_bytes=645, seconds=0.0, shipped=True)


NOISE = Noise(
    provider="cpu",
    output="logits",
    rtol=2.4e-7,
    atol=1.1e-7,
    times=2345.6,
    ways=("source in float64", "file in float64", "2 threads"),
    beyond=("optimisation extended",),
    calls=1,
)


def passed() -> GateResult:
    """All is well."""
    return gate(
        model(
            "iris-logreg",
            *(labels(f"batch={size}") for size in (1, 7)),
            *(floats(f"batch={size}", "probabilities", 9.52e-8, cosine=1.0) for size in (1, 7)),
            framework="sklearn",
            line=3,
            notes=("batch 128 was not run: the data has 45 rows",),
        ),
        model(
            "scaler",
            floats("data", "variable", 0.0, total=1200, shape=(240, 5)),
            framework="sklearn",
            line=9,
            convert=SHIPPED,
        ),
        model(
            "norm",
            floats("fixed", "output", 12345.6, reference=2e7, shape=(), total=1, cosine=0.99999997),
            line=14,
        ),
    )


def cached() -> GateResult:
    """Taken from an earlier run, but for one that changed."""
    earlier = Cached(made_at="2026-01-01T00:00:00+00:00", commit="0f3a9c1d" * 5, seconds=2.5)
    unknown = Cached(made_at="2026-01-02T00:00:00+00:00", seconds=0.5)
    free: dict[str, Any] = {"seconds": 0.0}
    return gate(
        model("iris-logreg", labels("batch=1"), floats("batch=1", "probabilities", 9.52e-8), cached=earlier, **free),
        model("scaler", floats("data", "variable", 0.0, total=1200, shape=(240, 5)), cached=unknown, line=9, **free),
        model("norm", floats("fixed", "output", 1e-7), line=14),
    )


def diverged() -> GateResult:
    """Floats out of tolerance: a little, a lot, not a number, and at another limit than the tolerance."""
    sizes = (1, 2, 7, 32)
    tagger = [floats(f"batch={n}", "logits", 0.31 / n, mismatched=12, total=35 * n, shape=(n, 5)) for n in sizes]
    tagger += [floats(f"batch={n}", "attention", 1e-7, total=16 * n, shape=(n, 16)) for n in sizes]
    gpu = [floats(f"batch={n}", "logits", 2.1e-3, provider="cuda", mismatched=2, total=35) for n in sizes]
    broken = floats(
        "edge=huge",
        "loss",
        mismatched=3,
        total=3,
        shape=(3,),
        max_abs=math.nan,
        mean_abs=None,
        max_rel=None,
        mean_rel=None,
        rmse=None,
        cosine=None,
        snr_db=-math.inf,
        lowest=None,
        highest=None,
        nonfinite_mismatched=3,
        worst=Worst(index=(0,), reference="Infinity", actual="NaN"),
    )
    limit = "cosine is 0.99871, at least 0.999 is allowed"
    return gate(
        model("iris-logreg", labels("batch=7"), floats("batch=7", "probabilities", 9.52e-8), framework="sklearn"),
        model("tagger", *tagger, line=9, cause=Cause.TRAIN_MODE, advice=TRAIN_MODE, noise=(NOISE,)),
        model(
            "ranker",
            *(floats(f"batch={n}", "logits", 3e-7) for n in sizes),
            *gpu,
            line=17,
            cause=Cause.PROVIDER,
            advice="The CPU agrees with the source, cuda doesn't: the file is right and the provider's arithmetic "
            "differs. Look at its precision options, or set a tolerance for it: providers: {cuda: {tolerance: …}}.",
            placement={
                "cpu": Placement(nodes=42, on_provider=42),
                "cuda": Placement(
                    nodes=42,
                    on_provider=39,
                    elsewhere=(
                        Elsewhere(node="/Shape", op="Shape", provider="cpu"),
                        Elsewhere(node="/Shape_1", op="Shape", provider="cpu"),
                        Elsewhere(node="/Gather", op="Gather", provider="cpu"),
                    ),
                ),
            },
        ),
        model(
            "loss",
            floats("batch=1", "loss", 1e-8),
            broken,
            line=25,
            cause=Cause.NAN,
            advice="One side answers NaN or Inf where the other doesn't.",
        ),
        model(
            "embedder",
            floats("batch=1", "embedding", 1e-8),
            floats(
                "batch=7",
                "embedding",
                8e-6,
                cosine=0.99871,
                breaches=breaches_of(BreachKind.LIMIT, limit),
                message=limit,
                status=Status.DIVERGED,
            ),
            line=31,
            cause=Cause.CONVERSION,
            advice=CONVERSION,
            convert=SHIPPED,
        ),
        seconds=83.2,
    )


def confused_labels() -> GateResult:
    """Labels that differ: few classes as a matrix, many as the commonest pairs, words as well as numbers."""
    matrix = ((0, 0, 30), (1, 1, 27), (2, 2, 28), (10, 10, 2), (1, 2, 2), (2, 0, 1))
    many = tuple((f"class {n}", f"class {n + 1}", 40 - n) for n in range(20))
    words = (("ham", "ham", 1203), ("spam", "spam", 388), ("ham", "spam", 1), ("", " ham ", 1))
    return gate(
        model(
            "digits",
            labels("batch=7"),
            labels("batch=32", confusion=matrix),
            floats("batch=32", "probabilities", 0.002, mismatched=6, total=360),
            framework="sklearn",
            cause=Cause.CONVERSION,
            advice=CONVERSION,
        ),
        model(
            "species",
            labels("data", "output_label", many, dtype="string"),
            line=12,
            framework="sklearn",
            cause=Cause.LABEL_ORDER,
        ),
        model(
            "mail", labels("data", "spam", words, dtype="string"), line=18, framework="sklearn", cause=Cause.PRECISION
        ),
    )


def errors() -> GateResult:
    """What could not be judged, at every stage."""
    crash = (
        "the process was killed by SIGSEGV (segmentation fault) during 'run on cpu' at tagger.py, line 41 in forward."
    )
    alone = "run the model's code on its own to find the line; native code crashed, Python can't catch that."
    return gate(
        model("crashes", floats("batch=1", "y", 1e-8), error("cpu", "run on cpu", Cause.CRASHED, crash, alone)),
        model(
            "hangs",
            error(
                "",
                "convert",
                Cause.TIMEOUT,
                "not finished after 300 s (timeout), during 'convert'.",
                "raise `timeout`, use smaller `batches`, or look for an endless loop.",
            ),
            line=8,
            seconds=300.4,
            convert=None,
        ),
        model(
            "needs-gpu",
            floats("batch=1", "y", 1e-8),
            floats("batch=7", "y", 2e-8),
            error(
                "cuda",
                "run on cuda",
                Cause.PROVIDER_UNAVAILABLE,
                "CUDAExecutionProvider did not load: libcublasLt.so.13: cannot open shared object file: No such file "
                "or directory.",
                "install the CUDA libraries (pip install 'onnx-gate[gpu]') and run where the GPU can be seen.",
            ),
            line=14,
        ),
        model(
            "unanswered",
            floats("batch=1", "y", 1e-8),
            *(
                error("cpu", f"batch={n} y", Cause.UNKNOWN, "this was expected and not compared")
                for n in (2, 7, 16, 32, 64, 128)
            ),
            line=20,
            cause=Cause.UNKNOWN,
        ),
        model("half", floats("batch=1", "y", 1e-8), floats("batch=7", "y", 2e-8), line=26),
    )


def skipped_cuda() -> GateResult:
    """A provider that this machine hasn't got, and a model that asks for nothing else."""
    return gate(
        model("iris-logreg", floats("batch=1", "probabilities", 1e-8), skip(), framework="sklearn"),
        model("tagger", floats("batch=1", "logits", 3e-7), skip(), line=9),
        model("gpu-only", skip(), line=15, convert=None),
    )


def contract() -> GateResult:
    """Names, dtypes and shapes that aren't those of the source."""
    refused = (
        "the source answers this feed, ONNX Runtime refuses it: Got invalid dimensions for input: X for the following "
        "indices index: 0 Got: 7 Expected: 1"
    )
    return gate(
        model(
            "renamed",
            breach("graph", "structure", "probabilities", "the ONNX model has no output 'probabilities'"),
            breach("graph", "structure", "scores", "the source has no output 'scores'; it has: label, probabilities"),
            labels("batch=1"),
            cause=Cause.CONTRACT,
            advice="The ONNX model's names, dtypes or shapes are not those of the source: code that calls it would "
            "break. Export it again with the names and types above, or correct the manifest.",
        ),
        model(
            "wide",
            *(
                breach("cpu", f"batch={n}", "y", "the dtype is float64, expected float32", BreachKind.DTYPE)
                for n in (1, 2, 7, 32)
            ),
            breach("cpu", "batch=1", "z", "the shape is (1, 1), expected (1,)", BreachKind.SHAPE),
            line=9,
            cause=Cause.CONTRACT,
        ),
        model(
            "baked",
            *(breach("cpu", "batch=7", output, refused, BreachKind.REFUSED) for output in ("label", "probabilities")),
            labels("batch=1"),
            line=15,
            cause=Cause.BATCH_BAKED,
            advice="The ONNX file has a dimension built in that the manifest wants dynamic. It is wrong at batch 7. "
            "Look for `int(x.shape[0])`, `if x.shape[0] == …` or a fixed reshape in forward().",
        ),
    )


def allow_failure() -> GateResult:
    """A divergence that is known: it shows, and the job doesn't fail."""
    known = floats("batch=7", "logits", 0.31, mismatched=12)
    return gate(
        model("known", known, allow_failure=True, cause=Cause.CONVERSION, advice=CONVERSION),
        model("good", floats("batch=7", "logits", 1e-7), line=9),
    )


def all_skipped() -> GateResult:
    """Nothing failed, and nothing was compared: that is no pass."""
    return gate(model("gpu-only", skip(), convert=None), model("gpu-too", skip(), line=9, convert=None))


def cancelled() -> GateResult:
    """A run that was stopped: what was judged stays, what wasn't did not pass."""
    unfinished = "the run was interrupted before this provider was compared"
    half = "the run was interrupted on this provider after 1 of 4 comparisons; none of them diverged."
    return gate(
        model("done", floats("batch=7", "logits", 1e-7)),
        model("running", floats("batch=1", "y", 1e-7), error("cpu", "run", Cause.INTERRUPTED, half), line=9),
        model("waiting", error("cpu", "run", Cause.INTERRUPTED, unfinished), line=15, convert=None, seconds=0.0),
        complete=False,
        exit_code=143,
    )


def nasty() -> GateResult:
    """Names and words that try to be something else: results.json may come from anywhere."""
    evil = "`*_[x](javascript:alert)_*` | <b>bold</b> <!-- &lt; </details> ]]> $x$ ~~y~~ \\ 🙂"
    lines = "# no heading\r\n- no list\n\n<script>alert(1)</script>\n```\nno fence\n::error::no command ##[error]no"
    control = "bell \x07, zero \x00, escape \x1b[31m, U+FFFE \ufffe, lone \ud800, right to left \u202e"
    output = f"out|put `{evil}\n{control}"
    pairs = ((f"a|b\n{control}", "a|b", 3), ("<b>", "<b>", 2), ("- 1", "1. x", 1), ("NaN", "x" * 500, 1))
    return gate(
        model(
            "id</summary>|`\n\ud800",
            floats(
                "batch=7|*",
                output,
                0.31,
                mismatched=12,
                breaches=(*breaches_of(BreachKind.ELEMENTS, evil), *breaches_of(BreachKind.LIMIT, lines)),
                message=f"{evil}; {lines}",
            ),
            labels("<i>case</i>", output, pairs, dtype="string"),
            breach("graph", "structure", "```", f"1. {lines}"),
            error("c|pu", "run <on> c|pu", Cause.UNKNOWN, f"{control} {lines}", f"{evil}."),
            skip("cu`da", f"{evil} {lines}"),
            framework="<torch>",
            cause=Cause.CONVERSION,
            advice=f"- {lines} {evil} {'very ' * 2000}long",
            notes=("- a list", "1. another", "> quoted", "# head", "---", "+ plus", "= rule", evil, lines),
            log="logs/`|\n.log",
        ),
        model("silent", error("", "", Cause.UNKNOWN, ""), line=4, error=""),
        model("twins", floats("a", "b c", 1e-8), floats("a b", "c", 1e-8), floats("a b c (2)", "", 1e-8), line=5),
        model("childless", line=6, error=""),
        manifest="folder\udcff|`/<b>\nonnx-gate.yml",
        shard="1/2 | <b>",
    )


def empty_shard() -> GateResult:
    """A part of the manifest that holds no model."""
    return gate(shard="3/3")


def merged() -> GateResult:
    """Three machines of two kinds, one of which is missing: what it should have brought is an error, by name."""
    again = "run that job again, and merge the artifacts of all"
    alone = gate(model("tagger", floats("batch=1", "logits", 3e-7)))
    gpu = replace(
        alone.environment,
        cpu="Intel Xeon",
        onnxruntime="1.23.0 (onnxruntime-gpu)",
        providers={"cuda": ProviderState(available=True)},
    )
    parts = [("1/2", ("cpu",), alone.environment), ("1/1", ("cuda",), gpu)]
    return gate(
        model(
            "tagger",
            floats("batch=1", "logits", 3e-7),
            floats("batch=1", "logits", 4e-6, provider="cuda"),
            placement={"cuda": Placement(nodes=42, on_provider=42)},
        ),
        model(
            "vad",
            error("cpu", "merge", Cause.UNKNOWN, "shard 2/2 on cpu is missing, and this model is in it.", again),
            floats("batch=1", "speech", 2e-6, provider="cuda"),
            line=9,
        ),
        complete=False,
        problems=(f"shard 2/2 on cpu is missing: it holds vad. Fix: {again}", "<b>|`\n: no results.json in it"),
        parts=tuple(
            Part(
                shard=None if shard == "1/1" else shard,
                providers=providers,
                started_at="2026-03-01T12:00:00+00:00",
                seconds=12.3,
                environment=environment,
            )
            for shard, providers, environment in parts
        ),
    )


def variants() -> GateResult:
    """Precision variants: a row each, with limits of their own; edges that passed in one row."""
    edges = ("zeros", "ones", "lowest", "highest", "tiny", "huge", "negative-zero", "denormal", "repeated-rows")
    cases = [f"batch={n}" for n in (1, 2, 7, 32)] + [f"edge={edge}" for edge in edges]
    whole = {"max_mismatch": 1.0, "min_snr_db": 15.0}
    limit = "snr_db is 9.8, at least 15 is required"
    quiet = {"limits": whole, "snr_db": 24.0, "status": Status.PASSED, "breaches": (), "message": ""}
    quantised = [floats(case, "logits", 0.02, mismatched=20, **quiet, fed=(f"{case} ×4",)) for case in cases]
    noisy = {"limits": whole, "snr_db": 9.8, "breaches": breaches_of(BreachKind.LIMIT, limit), "message": limit}
    failed = [floats(case, "logits", 0.31, mismatched=30, **noisy, status=Status.DIVERGED) for case in cases[:2]]
    return gate(
        model("tagger", *(floats(case, "logits", 3e-7) for case in cases)),
        model(
            "tagger@fp16",
            *(floats(case, "logits", 4.9e-4, tolerance=Tolerance(rtol=1e-2, atol=1e-3)) for case in cases[:4]),
            line=5,
            variant_of="tagger",
            convert=replace(CONVERTED, variant="fp16"),
            notes=("in float16: MatMul (12), Add (12), Gelu (6); still float32: LayerNormalization (12)",),
        ),
        model(
            "tagger@int8-static",
            *failed,
            *quantised[2:],
            line=6,
            variant_of="tagger",
            convert=replace(CONVERTED, variant="int8-static", opsets={"com.microsoft": 1}),
            cause=Cause.PRECISION,
            advice="In float32 the model is within its limits, in int8-static it is not (`logits`, batch=7: snr_db is "
            "9.8, at least 15 is required). Try `per_channel: true`. This CPU has no VNNI, so that products may "
            "saturate: `reduce_range: true` may help.",
        ),
        model(
            "forest@int8-dynamic",
            error(
                "",
                "variant",
                Cause.CONVERSION_FAILED,
                "forest@int8-dynamic: int8-dynamic of forest: nothing was quantised, so it would be the same model "
                "once more: int8-dynamic takes Conv, Gemm, MatMul with float32 weights; the model has "
                "TreeEnsembleClassifier.",
                "remove the variant int8-dynamic from this model.",
            ),
            line=12,
            variant_of="forest",
            framework="sklearn",
            convert=None,
        ),
    )


def weak() -> GateResult:
    """Passes that a wrong model might have had too, each for another reason, and a manifest with a warning."""
    tiny = {"lowest": -3e-6, "highest": 4e-6, "reference": 2e-6}
    certain = {"lowest": 0.0, "highest": 1.0, "saturated": 35}
    return gate(
        model("good", floats("batch=1", "y", 1e-8), floats("batch=7", "y", 2e-8)),
        model("tiny", floats("batch=1", "y", 1e-8, **tiny), floats("batch=7", "y", 2e-8, **tiny), line=9),
        model(
            "one-class",
            labels("data", labels=("ham",)),
            floats("data", "probabilities", 1e-8, **certain),
            framework="sklearn",
            line=15,
        ),
        model("zeros", floats("data", "y", 0.0, lowest=0.0, highest=0.0, reference=0.0), line=21),
        model("deaf", floats("data", "y", 1e-8, same="cafe"), floats("more", "y", 1e-8, same="cafe"), line=27),
        model("single", floats("fixed", "y", 1e-8, samples=1), line=33, weak_reference=True, convert=SHIPPED),
        warnings=(
            ManifestWarning(
                file="onnx-gate.yml",
                line=10,
                column=31,
                path="models[1].providers.cuda.options.use_tf23",
                message="onnx-gate knows no option 'use_tf23' of cuda",
                fix="did you mean 'use_tf32'?",
                models=("tiny",),
            ),
        ),
    )


def timed() -> GateResult:
    """How fast and how precisely each provider computed, and a reference from another machine."""

    def times(provider: str, size: int, source: float | None, actual: float) -> Latency:
        return Latency(
            provider=provider,
            case=f"batch={size}",
            batch=size,
            source=Timing(median=source, p95=1.2 * source) if source else None,
            actual=Timing(median=actual, p95=1.1 * actual),
            speedup=source / actual if source else None,
            repeats=50,
        )

    slow = "at batch=1 cuda is 0.25 times as fast as the source (median 400 µs against 100 µs), min_speedup is 1.5"
    noise = "nondeterministic: two runs of cuda on the same input (batch=32) differ: `y` in 3 of 96 elements"
    tf32 = {"use_tf32": "1"}
    both = [floats("batch=1", "y", 1e-8, provider=name) for name in ("cpu", "cuda")]
    limit = Check(
        provider="cuda",
        case="latency",
        output="speedup",
        status=Status.DIVERGED,
        limits={"min_speedup": 1.5},
        breaches=breaches_of(BreachKind.SPEED, slow),
        message=slow,
    )
    return gate(
        model(
            "fast",
            *both,
            latency=(times("cpu", 1, 1e-4, 2e-5), times("cpu", 32, 2.5e-3, 1e-3), times("cuda", 32, 2.5e-3, 2.5e-4)),
            numerics={
                "cpu": Numerics(run_twice="batch=7"),
                "cuda": Numerics(
                    options={"device_id": "0", **tf32},
                    fast=tf32,
                    run_twice="batch=32",
                    run_to_run=(RunToRun(output="y", differing=3, total=96, max_abs=1e-7),),
                ),
            },
            coverage=state_coverage(both, also=(f"{noise}, by up to 1e-7",)),
        ),
        model(
            "slow",
            *both,
            limit,
            cause=Cause.PROVIDER,
            advice="The answers agree.",
            latency=(times("cuda", 1, 1e-4, 4e-4),),
        ),
        model(
            "travelled",
            floats("batch=1", "y", 1e-8),
            latency=(times("cpu", 1, None, 2e-5),),
            reference="from reference, made 2026-01-02T03:04:05+00:00 on Linux x86_64 (a processor) with torch 2.13.0",
        ),
    )


def given() -> GateResult:
    """Data that float32 can't hold: one model diverges on it alone, one nearly does, one has another fault as well."""
    rounded = (
        "Rounding the data to the schema's dtype already changes the source's own answers: `variable` in 84 of 600 "
        "rows. The ONNX model answers the rounded data as the source does. Most is lost in column 0 of `X`: values "
        "near 1.7e9 are rounded by up to 64."
    )
    tie = "On the data as given ONNX Runtime on cpu differs from the source: `label` in 1 of 150 rows"
    neighbours = (labels("batch=32"), given_rows("label", 1, 150, reference=0, actual=1, shape=(150,)))
    return gate(
        model(
            "times",
            floats("batch=32", "variable", 1e-7),
            given_rows("variable", 84, 600, reference=2.17715, actual=0.4447836, shape=(600, 1)),
            framework="sklearn",
            cause=Cause.PRECISION,
            advice=rounded,
        ),
        model(
            "neighbours",
            *neighbours,
            framework="sklearn",
            line=9,
            coverage=state_coverage(neighbours, also=[tie]),
        ),
        model(
            "stale",
            floats("batch=32", "variable", 0.31, mismatched=12),
            given_rows("variable", 600, 600, reference=2.17715, actual=0.4447836, shape=(600, 1)),
            framework="sklearn",
            line=15,
            cause=Cause.CONVERSION,
            advice=CONVERSION,
        ),
    )


def _with_strength(model_id: str, strength: Strength, *, least: float | None = None, line: int = 3) -> ModelResult:
    """A model that agrees with its source, as a run judges its inputs."""
    checks = floats("batch=1", "logits", 1e-8), floats("batch=7", "logits", 3e-7)
    coverage = state_coverage(checks, also=warn_of_strength(strength, least))
    limit = judge_strength(strength, least, checks)
    return model(model_id, *limit, *checks, line=line, coverage=coverage, strength=strength)


def strength() -> GateResult:
    """Inputs that catch most wrong models, some, or too few, and a run that had no time for all."""
    embedding = Survivors(
        mutants=12,
        reason="rows 10 to 30,521 of `emb.weight` are never read",
        fix="add `range: [0, 30521]` to `tokens`",
    )
    column = Survivors(
        mutants=5,
        reason="column 1 of `output` is below atol everywhere",
        fix="use `outputs: {output: {rtol: 1e-3, atol: 1e-9}}`",
    )
    unknown = Survivors(mutants=1, reason="no input that was tried tells it from the model")
    leaves = Survivors(mutants=38, reason="no row of the data reaches 31 of 64 leaves of tree 7", fix="feed more rows")
    return gate(
        _with_strength(
            "strong",
            strength_of(
                (("weights x 1.5", 40, 38, 36, 36), ("negated", 40, 38, 38, 38), ("Relu left out", 25, 24, 20, 20)),
                survivors=(column, unknown),
                half_tried=8,
                half_caught=1,
                rows=1024,
                all_rows=4_500,
                witnesses=256,
                offered=6,
            ),
        ),
        _with_strength(
            "aimed",
            strength_of(
                (("a leaf moved", 60, 60, 40, 60), ("a threshold moved", 40, 40, 31, 40)),
                survivors=(replace(leaves, mutants=29),),
            ),
            line=9,
        ),
        _with_strength(
            "slow",
            strength_of((("negated", 64, 64, 61, 61),), planned=100, incomplete="a quarter of `timeout` was used up"),
            line=15,
        ),
        _with_strength("poor", strength_of((("negated", 60, 40, 10, 10),), survivors=(embedding, column)), line=21),
        _with_strength(
            "too-weak",
            strength_of((("negated", 100, 100, 62, 62),), survivors=(replace(leaves, mutants=33), column), offered=31),
            least=0.9,
            line=27,
        ),
    )


def before_strength() -> GateResult:
    """The run before: the inputs of two models have become weaker since."""
    before = {
        "strong": strength_of((("negated", 100, 100, 99, 99),)),
        "poor": strength_of((("negated", 60, 40, 11, 11),)),
        "too-weak": strength_of((("negated", 100, 100, 95, 95),)),
    }
    models = {each.id: each for each in strength().models}
    weaker = [_with_strength(model_id, found) for model_id, found in before.items()]
    return gate(*({**models, **{each.id: each for each in weaker}}.values()))


def before_diverged() -> GateResult:
    """The run before: one model has drifted since, two have diverged, one is fixed, one is new, one is gone."""
    now = {each.id: each for each in diverged().models}
    good = floats("batch=1", "logits", 1e-7)
    return gate(
        model("iris-logreg", error("cpu", "run on cpu", Cause.CRASHED, "segmentation fault"), framework="sklearn"),
        model("tagger", good),
        model("ranker", good),
        replace(now["embedder"], checks=(floats("batch=7", "embedding", 2e-7, mismatched=1),)),
        model("gone", good),
    )


def drawn() -> GateResult:
    """What plots are made of: numbers and labels, a place in the graph, times, and nodes that ran elsewhere."""
    sizes = (1, 2, 7, 32, 128)
    worst = floats("batch=128", "logits", 0.31, mismatched=40, total=3_840, shape=(384, 10))
    logits = [floats(f"batch={n}", "logits", 0.31 / 128 * n, mismatched=4, total=350) for n in sizes[:-1]]
    fault = PlaceFault(
        what="Gelu is the tanh approximation here, and exact in the source",
        cause=Cause.OPERATOR,
        nodes=(PlaceNode(name="/blocks/1/act/Tanh", op="Tanh"),),
        count=4,
        module="blocks.1.act",
        line="model.py:42",
        reads=("blocks.1.fc",),
        value="blocks.1.act",
        error=4.7e-4,
        noise=2.1e-8,
    )
    along = [("embed", 0.0), ("blocks.0", 3e-7), ("blocks.1.fc", 4e-7), ("blocks.1.act", 4.7e-4), ("head", 0.31)]
    times = [
        Latency(
            provider="cuda",
            case=f"batch={n}",
            batch=n,
            source=Timing(median=0.002 * n, p95=0.0022 * n),
            actual=Timing(median=0.001 + 0.0005 * n, p95=0.0012 + 0.0005 * n),
            speedup=0.002 * n / (0.001 + 0.0005 * n),
            repeats=50,
        )
        for n in (1, 32)
    ]
    return gate(
        model(
            "segmenter",
            *logits,
            worst,
            cause=Cause.OPERATOR,
            advice="Gelu is the tanh approximation in the file. Export with `approximate='none'`.",
            place=Place(
                faults=(fault,),
                along=tuple(Along(value=value, error=error, noise=2e-8) for value, error in along),
            ),
            mended=Mended(changes=("Gelu",), passes=True, checks=5, file="repro/segmenter/mended.onnx"),
            plots=(
                Plot(
                    provider="cpu",
                    case="batch=128",
                    output="logits",
                    looked=3_840,
                    histogram=Histogram(
                        smallest=1e-7, counts=(5, 900, 2_700, 190, 0, 30, 10), beyond=(0, 0, 0, 0, 0, 30, 10), same=5
                    ),
                    pairs=Pairs(
                        lowest=-1.25,
                        highest=2.5,
                        cells=(0, 33, 66, 99, 330, 363, 1023),
                        counts=(1, 9, 90, 900, 9, 5, 1),
                    ),
                    by_row=ByRow(rows=384, used=(0.1, 0.2, 30.0, 0.1, 0.4, 2800.0)),
                ),
            ),
            noise=(replace(NOISE, times=2_345.6),),
        ),
        model(
            "digits",
            labels("data", total=90, shape=(90,)),
            floats("data", "probabilities", 2e-7, provider="cuda", total=4, shape=(2, 2)),
            line=17,
            framework="sklearn",
            plots=(
                Plot(
                    provider="cpu",
                    case="data",
                    output="label",
                    looked=90,
                    matrix=Matrix(
                        labels=("ham", "spam", "<b>"), references=(0, 1, 2), actuals=(0, 1, 2), counts=(60, 29, 1)
                    ),
                ),
                Plot(
                    provider="cuda",
                    case="data",
                    output="probabilities",
                    looked=4,
                    histogram=Histogram(smallest=1e-8, counts=(2, 0, 1), beyond=(0, 0, 0), same=1),
                    pairs=Pairs(lowest=0.0, highest=1.0, references=(0.0, 0.5, 0.5, 1.0), actuals=(0.0, 0.5, 0.5, 1.0)),
                ),
            ),
            latency=tuple(times),
            placement={"cuda": Placement(nodes=42, on_provider=39)},
        ),
    )


BEFORE = {"diverged": before_diverged, "strength": before_strength}
"""What the last comment told, where there was one."""

FAMILIES = {
    "passed": passed,
    "cached": cached,
    "strength": strength,
    "diverged": diverged,
    "labels": confused_labels,
    "errors": errors,
    "skipped-cuda": skipped_cuda,
    "contract": contract,
    "allow-failure": allow_failure,
    "all-skipped": all_skipped,
    "cancelled": cancelled,
    "nasty": nasty,
    "empty-shard": empty_shard,
    "merged": merged,
    "variants": variants,
    "weak": weak,
    "timed": timed,
    "given": given,
    "drawn": drawn,
    "history": history,
}
"""By the name of their files."""
