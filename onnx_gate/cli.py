"""argv → Settings → pipeline → reports → exit code."""

from __future__ import annotations

import signal
import sys
import traceback
from argparse import (
    ArgumentParser,
    ArgumentTypeError,
    BooleanOptionalAction,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from onnx_gate import __version__, settings
from onnx_gate.console import prepare_streams, say
from onnx_gate.errors import EXIT_BUG, EXIT_NOT_JUDGED, EXIT_PASSED, GateError, ManifestError
from onnx_gate.folder import OutputFolder
from onnx_gate.records import CommentMode
from onnx_gate.settings import Settings

# What is imported inside a function is what `--help` doesn't need.

EXIT_CODES = """\
exit codes:
  0  every model passed (skips are listed)
  1  at least one model diverged
  2  the manifest or the call is wrong; nothing was run
  3  none diverged, but at least one could not be judged, or nothing was compared
  4  a bug in onnx-gate itself"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command `onnx-gate`."""
    arguments = build_parser().parse_args(argv)
    return _guarded(lambda: arguments.command(arguments))


def main_action() -> int:
    """The action: `run` with the inputs of the step."""

    def run_action() -> int:
        from onnx_gate import publish, requirements
        from onnx_gate.worker.privileges import hide

        hide()
        with publish.errors_told(settings.to_tell_failure(None)):
            asked = settings.from_inputs()
        with (
            publish.errors_told(asked),
            requirements.installed(asked.requirements, settings.pip_environ(), asked.options) as packages,
        ):
            return _judge_and_publish(replace(asked, options=replace(asked.options, packages=packages)))

    return _guarded(run_action)


def build_parser() -> ArgumentParser:
    """The command line, as `--help` shows it."""
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
    check = commands.add_parser("check", help="check the manifest only")
    check.add_argument("manifest", nargs="?", default="onnx-gate.yml", metavar="MANIFEST")
    check.set_defaults(command=_check)
    report = commands.add_parser("report", help="render the reports again from a results.json")
    report.add_argument("results", metavar="RESULTS", help="a results.json, or the folder that holds it")
    report.add_argument(
        "--output", default="onnx-gate-report", metavar="DIR", help="where to write (default: %(default)s)"
    )
    _add_comment(report)
    report.set_defaults(command=_report)
    doctor = commands.add_parser("doctor", help="tell what this machine can run, and why not")
    doctor.set_defaults(command=_doctor)
    return parser


def _add_run(run: ArgumentParser) -> None:
    run.add_argument("manifest", nargs="?", default="onnx-gate.yml", metavar="MANIFEST", help="default: %(default)s")
    run.add_argument(
        "--output",
        default="onnx-gate-report",
        metavar="DIR",
        help="where the reports go (default: %(default)s)",
    )
    run.add_argument("--only", action="append", default=[], metavar="ID", help="judge this model only; repeatable")
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
        help="load sources that run code of their own: pickle, joblib, TorchScript, .pt2 "
        "(default: unless the checkout left credentials beside them)",
    )
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
    run.set_defaults(command=_run)


def _add_plan(plan: ArgumentParser) -> None:
    plan.add_argument("manifest", nargs="?", default="onnx-gate.yml", metavar="MANIFEST", help="default: %(default)s")
    plan.add_argument("--shards", type=_positive, required=True, metavar="N", help="at most so many, up to 256")
    plan.add_argument("--results", metavar="PATH", help="an earlier results.json, or its folder: how long models take")
    plan.add_argument("--only", action="append", default=[], metavar="ID", help="plan this model only; repeatable")
    plan.add_argument(
        "--provider", action="append", default=[], metavar="NAME", help="for runs on this provider only; repeatable"
    )
    plan.add_argument(
        "--print", choices=("matrix", "plan"), default="matrix", help="what goes to standard output (default: matrix)"
    )
    plan.set_defaults(command=_plan)


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
    _add_comment(merge)
    merge.set_defaults(command=_merge)


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


def _run(arguments: Namespace) -> int:
    from onnx_gate import publish
    from onnx_gate.worker.privileges import hide

    hide()
    with publish.errors_told(settings.to_tell_failure(arguments)):
        asked = settings.from_arguments(arguments)
    with publish.errors_told(asked):
        return _judge_and_publish(asked)


def _judge_and_publish(asked: Settings) -> int:
    from onnx_gate.manifest.load import load_manifest

    manifest = load_manifest(asked.manifest, sources_here=asked.options.reference is None)
    from onnx_gate import publish
    from onnx_gate.pipeline import require_folders, run_gate, select_models
    from onnx_gate.progress import LiveProgress, PlainProgress
    from onnx_gate.signals import Signals

    # A call that is wrong costs nothing: not even the reports of the last one.
    select_models(manifest, asked.options)
    require_folders(manifest, asked.options)
    signals = Signals()
    with signals.held(), OutputFolder(asked.output, beside=asked.manifest) as folder:
        progress = LiveProgress(sys.stdout) if asked.live else PlainProgress(sys.stdout, _debugger(asked))
        try:
            result = run_gate(manifest, asked.options, folder, progress, signals.interruptible)
        finally:
            progress.close()
        publish.publish(result, asked, folder)
    return result.exit_code


def _plan(arguments: Namespace) -> int:
    from onnx_gate import publish
    from onnx_gate.manifest.load import load_manifest
    from onnx_gate.shards.plan import make_plan, seconds_if_known

    asked = settings.from_plan(arguments)
    with publish.errors_told(asked):
        seconds, told = seconds_if_known(arguments.results)
        plan = make_plan(load_manifest(asked.manifest), asked.options, arguments.shards, seconds)
        publish.publish_plan(plan.outputs[arguments.print], [*told, *plan.told], plan.outputs, asked)
    return EXIT_PASSED


def _merge(arguments: Namespace) -> int:
    from onnx_gate import publish
    from onnx_gate.manifest.file import digest, read_text
    from onnx_gate.shards.gather import merge_folders, require_apart
    from onnx_gate.shards.parts import find_parts

    asked = settings.from_merge(arguments)
    with publish.errors_told(asked):
        folders, barren = find_parts(arguments.folders)
        require_apart(asked.output, folders)
        expected = digest(read_text(asked.manifest, arguments.manifest)) if arguments.manifest else ""
        with OutputFolder(asked.output) as folder:
            result = merge_folders(
                folders, folder, providers=asked.options.providers, manifest_sha256=expected, problems=barren
            )
            publish.publish(result, asked, folder)
    return result.exit_code


def _debugger(asked: Settings) -> Callable[[str], None]:
    from onnx_gate.console import command
    from onnx_gate.github.commands import debug

    return (lambda line: command(debug(line))) if asked.debugs else lambda line: None


def _check(arguments: Namespace) -> int:
    from onnx_gate.manifest.load import load_manifest

    manifest = load_manifest(Path(arguments.manifest))
    count = len(manifest.models)
    say(f"{manifest.path}: {count} model{'s' * (count != 1)}, no problems")
    return EXIT_PASSED


def _report(arguments: Namespace) -> int:
    from onnx_gate import publish
    from onnx_gate.comments import publish_comment
    from onnx_gate.reports import json
    from onnx_gate.wording import headline

    source = Path(arguments.results)
    result = json.read(source)
    with OutputFolder(Path(arguments.output)) as folder:
        publish.write_reports(result, folder)
    say(f"{headline(result)}\nreports: {arguments.output}/summary.md, junit.xml, results.json")
    publish_comment(result, CommentMode(arguments.comment), settings.workflow())
    return result.exit_code


def _doctor(arguments: Namespace) -> int:
    from onnx_gate import doctor

    text, healthy = doctor.examine(settings.worker_environ(), settings.isolation())
    say(text)
    return EXIT_PASSED if healthy else EXIT_NOT_JUDGED


def _guarded(command: Callable[[], int]) -> int:
    """The one place that turns errors into exit codes."""
    prepare_streams()
    try:
        return command()
    except GateError as error:
        say(str(error) if isinstance(error, ManifestError) else f"onnx-gate: {error}", sys.stderr)
        _tell_where()
        return error.exit_code
    except KeyboardInterrupt:
        say("onnx-gate: stopped before anything was run", sys.stderr)
        return 128 + signal.SIGINT
    except Exception:
        say(
            f"onnx-gate: this is a bug in onnx-gate {__version__}. Please report it with all of the following:\n"
            f"Python {sys.version}\n{traceback.format_exc()}",
            sys.stderr,
        )
        return EXIT_BUG


def _tell_where() -> None:
    """Where an error comes from, for those who run the job again with debug logging on."""
    known = settings.workflow()
    if known.in_actions and known.debug:
        from onnx_gate.console import command
        from onnx_gate.github.commands import debug

        command(debug(traceback.format_exc()))
