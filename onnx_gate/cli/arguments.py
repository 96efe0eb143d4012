"""The command line: commands, options, and their `--help` texts."""

from __future__ import annotations

from argparse import (
    Action,
    ArgumentParser,
    ArgumentTypeError,
    BooleanOptionalAction,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable
from typing import Any

from onnx_gate import __version__
from onnx_gate.frameworks.registry import code_forms
from onnx_gate.records.settings import DEFAULT_CACHE_SIZE, CommentMode

EXIT_CODES = """\
exit codes:
  0  every model passed (skips are listed)
  1  at least one model diverged
  2  the manifest or the call is wrong; nothing was run
  3  none diverged, but at least one could not be judged, or nothing was compared
  4  a bug in onnx-gate itself"""


def build_parser(**does: Callable[[Namespace], int]) -> ArgumentParser:
    """The command line, as `--help` shows it; `does` holds the function that runs each command, by its name."""
    parser = ArgumentParser(
        prog="onnx-gate",
        description="Stop a converted model from answering differently than its source.",
        epilog=EXIT_CODES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"onnx-gate {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_run(
        commands.add_parser(
            "run",
            help="judge the models of a manifest",
            epilog=EXIT_CODES,
            formatter_class=RawDescriptionHelpFormatter,
        )
    )
    _add_plan(commands.add_parser("plan", help="split a manifest into shards, for the matrix of a workflow"))
    _add_merge(commands.add_parser("merge", help="make one result of the shards' results"))
    _add_calibrate(commands.add_parser("calibrate", help="measure how large rounding is, and propose tolerances"))
    _add_init(commands.add_parser("init", help="find the models of a repository, and write a first manifest"))
    check = commands.add_parser("check", help="check the manifest only")
    check.add_argument("manifest", nargs="?", default="onnx-gate.yml", metavar="MANIFEST")
    report = commands.add_parser("report", help="render the reports again from a results.json")
    report.add_argument("results", metavar="RESULTS", help="a results.json, or the folder that holds it")
    report.add_argument(
        "--output", default="onnx-gate-report", metavar="DIR", help="where to write (default: %(default)s)"
    )
    _add_baseline(report)
    _add_comment(report)
    schema = commands.add_parser("schema", help="print the JSON Schema of the manifest, or of results.json")
    schema.add_argument(
        "of", nargs="?", choices=("manifest", "results"), default="manifest", help="default: %(default)s"
    )
    commands.add_parser("doctor", help="tell what this machine can run, and why not")
    for name, command in does.items():
        commands.choices[name].set_defaults(command=command)
    return parser


def _add_run(run: ArgumentParser) -> None:
    run.add_argument("manifest", nargs="?", default="onnx-gate.yml", metavar="MANIFEST", help="default: %(default)s")
    run.add_argument(
        "--output",
        default="onnx-gate-report",
        metavar="DIR",
        help="where the reports go (default: %(default)s)",
    )
    run.add_argument(
        "--only", action="append", default=[], metavar="ID", help="judge these models only: an id or a glob; repeatable"
    )
    run.add_argument(
        "--provider",
        action="append",
        default=[],
        metavar="NAME",
        help="run on this provider only; repeatable",
    )
    run.add_argument("--require-cuda", action="store_true", help="CUDA that is not available is an error")
    run.add_argument("--jobs", type=_positive, metavar="N", help="models at a time (default: the CPUs of this process)")
    run.add_argument("--shard", metavar="I/N", help="judge the I-th of N parts of the manifest")
    run.add_argument("--plan", metavar="PLAN", help="which models each shard holds, as `onnx-gate plan` gives it")
    run.add_argument(
        "--allow-pickle",
        action=BooleanOptionalAction,
        help=f"load sources that run code of their own: {', '.join(code_forms())} "
        "(default: unless the checkout left credentials beside them)",
    )
    run.add_argument(
        "--resume", action="store_true", help="judge what an interrupted run in the same output folder has left"
    )
    _add_cache(run)
    _add_baseline(run)
    _add_comment(run)
    travelling = run.add_mutually_exclusive_group()
    travelling.add_argument(
        "--save-reference",
        metavar="DIR",
        help="also keep models, inputs and reference outputs there, for machines without the frameworks",
    )
    travelling.add_argument(
        "--reference", metavar="DIR", help="compare with what --save-reference kept; needs no framework"
    )


def _add_cache(run: ArgumentParser) -> None:
    run.add_argument(
        "--cache",
        metavar="DIR",
        help="remember models that passed, and don't run again those of which nothing has changed",
    )
    run.add_argument(
        "--cache-size", metavar="SIZE", help=f"what the cache may hold, such as 512MiB (default: {DEFAULT_CACHE_SIZE})"
    )
    run.add_argument(
        "--explain-cache", action="store_true", help="say for each model why the cache could serve it, or why not"
    )


def _add_init(init: ArgumentParser) -> None:
    init.add_argument("paths", nargs="*", metavar="PATH", help="files and folders to search (default: this folder)")
    init.add_argument(
        "--output", default="onnx-gate.yml", metavar="FILE", help="the manifest to write (default: %(default)s)"
    )
    init.add_argument(
        "--data", metavar="FILE", action=_Once, help="a .csv, .parquet, .npz or .npy file for the models that it fits"
    )
    init.add_argument("--load", action="store_true", help="load models to see their inputs, which runs their code")
    init.add_argument("--workflow", action="store_true", help="also write a workflow for GitHub Actions")


class _Once(Action):
    """An option that takes one value: a second one would silently replace the first."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: str | None = None
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{option_string} was given twice; name one file, and add `data:` to the other models by hand")
        setattr(namespace, self.dest, values)


def _add_calibrate(calibrate: ArgumentParser) -> None:
    calibrate.add_argument(
        "manifest", nargs="?", default="onnx-gate.yml", metavar="MANIFEST", help="default: %(default)s"
    )
    calibrate.add_argument("--write", action="store_true", help="put the tolerances into the manifest")
    calibrate.add_argument(
        "--output", default="onnx-gate-calibration", metavar="DIR", help="where the logs go (default: %(default)s)"
    )
    calibrate.add_argument(
        "--only", action="append", default=[], metavar="ID", help="these models only: an id or a glob; repeatable"
    )
    calibrate.add_argument(
        "--provider", action="append", default=[], metavar="NAME", help="on this provider only; repeatable"
    )
    calibrate.add_argument("--jobs", type=_positive, metavar="N", help="models at a time (default: the CPUs)")
    calibrate.add_argument(
        "--allow-pickle",
        action=BooleanOptionalAction,
        help="load sources that run code of their own (default: unless the checkout left credentials beside them)",
    )


def _add_plan(plan: ArgumentParser) -> None:
    plan.add_argument("manifest", nargs="?", default="onnx-gate.yml", metavar="MANIFEST", help="default: %(default)s")
    plan.add_argument("--shards", type=_positive, required=True, metavar="N", help="at most so many, up to 256")
    plan.add_argument("--results", metavar="PATH", help="an earlier results.json, or its folder: how long models take")
    plan.add_argument("--only", action="append", default=[], metavar="ID", help="plan these models only; repeatable")
    plan.add_argument(
        "--provider", action="append", default=[], metavar="NAME", help="for runs on this provider only; repeatable"
    )
    plan.add_argument(
        "--print", choices=("matrix", "plan"), default="matrix", help="what goes to standard output (default: matrix)"
    )


def _add_merge(merge: ArgumentParser) -> None:
    merge.add_argument("folders", nargs="+", metavar="DIR", help="a shard's output folder, or a folder of such folders")
    merge.add_argument(
        "--output", default="onnx-gate-report", metavar="DIR", help="where the reports go (default: %(default)s)"
    )
    merge.add_argument("--manifest", metavar="MANIFEST", help="the manifest that the shards must be of")
    merge.add_argument(
        "--provider",
        action="append",
        default=[],
        metavar="NAME",
        help="a provider that must have run (default: all that the manifest names); repeatable",
    )
    _add_baseline(merge)
    _add_comment(merge)


def _add_baseline(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--baseline",
        default="",
        metavar="PATH",
        help="an earlier results.json, or its folder, to say what changed since; `auto` for that of the last push to "
        "the base branch, with GITHUB_TOKEN. No verdict depends on it",
    )


def _add_comment(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--comment",
        choices=list(CommentMode),
        default=CommentMode.NEVER,
        help="comment on the pull request, with GITHUB_TOKEN (default: %(default)s)",
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"got {text!r}, expected a whole number of at least 1")
    return int(text)
