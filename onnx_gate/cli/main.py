"""argv → Settings → pipeline → reports → exit code."""

from __future__ import annotations

import signal
import sys
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_gate import __version__
from onnx_gate.cli import arguments, environ, settings
from onnx_gate.errors import EXIT_BUG, EXIT_NOT_JUDGED, EXIT_PASSED, GateError, ManifestError
from onnx_gate.gate.console import prepare_streams, say
from onnx_gate.records.asked import ManifestWarning
from onnx_gate.records.settings import CommentMode, Settings

if TYPE_CHECKING:
    from onnx_gate.processes.warming import Early

# Imports inside a function are those that `--help` doesn't need.


def main(argv: Sequence[str] | None = None) -> int:
    """The command `onnx-gate`."""
    given = build_parser().parse_args(argv)
    return _guarded(lambda: given.command(given))


def main_action() -> int:
    """The action: `run` with the inputs of the step."""

    def run_action() -> int:
        from onnx_gate.cli import requirements
        from onnx_gate.kernel import hide
        from onnx_gate.publish.failures import errors_told

        hide()
        with errors_told(settings.to_tell_failure(None)):
            asked = settings.from_inputs()
        with (
            errors_told(asked),
            requirements.installed(asked.requirements, environ.pip_environ(), asked.options) as packages,
        ):
            return _judge_and_publish(replace(asked, options=replace(asked.options, packages=packages)))

    return _guarded(run_action)


def build_parser() -> ArgumentParser:
    """The parser of the command line, with the function that runs each command."""
    return arguments.build_parser(
        run=_run,
        plan=_plan,
        merge=_merge,
        calibrate=_calibrate,
        init=_init,
        check=_check,
        report=_report,
        schema=_schema,
        doctor=_doctor,
    )


def _run(given: Namespace) -> int:
    from onnx_gate.kernel import hide
    from onnx_gate.publish.failures import errors_told

    hide()
    with errors_told(settings.to_tell_failure(given)):
        asked = settings.from_arguments(given)
    with errors_told(asked):
        return _judge_and_publish(asked)


def _judge_and_publish(asked: Settings) -> int:
    from onnx_gate.processes.warming import Early

    # Servers import their frameworks while this process imports what it needs, and reads the manifest.
    with Early.for_run(asked.manifest, asked.options, partly=asked.resume) as early:
        return _judge(asked, early)


def _judge(asked: Settings, early: Early) -> int:
    from onnx_gate.manifest.load import load_manifest

    manifest = load_manifest(asked.manifest, sources_here=asked.options.reference is None)
    from onnx_gate.baselines.find import beside, find_baseline
    from onnx_gate.cli.estimate import last_seconds
    from onnx_gate.cli.progress import LiveProgress, PlainProgress
    from onnx_gate.cli.signals import Signals
    from onnx_gate.gate.output import OutputFolder
    from onnx_gate.gate.run import run_gate
    from onnx_gate.gate.selection import require_folders, select_models
    from onnx_gate.shards import resume
    from onnx_gate.vocabulary import RESUME_NOTE

    _say_warnings(manifest.warnings)
    # A wrong call must cost nothing, not even the reports of the last run.
    specs = select_models(manifest, asked.options)
    require_folders(manifest, asked.options)
    # Read before the output folder is emptied, because the baseline may be in that folder.
    earlier = find_baseline(asked.baseline, asked.workflow)
    # Read before the folder is prepared for the results of this run.
    last = last_seconds(asked.output)
    known = resume.digests(manifest, asked.options, asked.output)
    finished = resume.find_finished(asked.output, known, specs) if asked.resume else {}
    signals = Signals()
    with signals.held(), OutputFolder(asked.output, beside=asked.manifest, kept=finished) as folder:
        progress = LiveProgress(sys.stdout, last) if asked.live else PlainProgress(sys.stdout, _debugger(asked))
        try:
            result = run_gate(
                manifest,
                asked.options,
                folder,
                progress,
                signals.raise_if_received,
                meanwhile=_import_reports,
                last=last,
                finished=finished,
                early=early,
            )
        finally:
            progress.close()
        from onnx_gate.publish import results

        # The warnings that only the run could find.
        _say_warnings(warning for warning in result.warnings if warning not in manifest.warnings)
        shown = results.publish(beside(result, earlier), asked, folder)
        if not shown.complete:
            folder.write(RESUME_NOTE, resume.note(shown, known, (folder.path / "results.json").read_bytes()))
            if how := _to_finish(asked):
                say(f"to judge those that were not run: {how}")
        return shown.exit_code


def _import_reports() -> None:
    """Import what a run needs at its end."""
    import onnx_gate.publish.results  # noqa: F401
    from onnx_gate.reports import get_ready

    get_ready()


def _to_finish(asked: Settings) -> str:
    """How to finish an interrupted run; empty in a workflow, whose next job starts with an empty folder."""
    if asked.in_actions:
        return ""
    # A reference is made, and used, only by a run of all models.
    whole = asked.options.reference or asked.options.save_reference
    return "the same command again, from the start" if whole else "the same command with --resume"


def _plan(given: Namespace) -> int:
    from onnx_gate.manifest.load import load_manifest
    from onnx_gate.publish import results
    from onnx_gate.publish.failures import errors_told
    from onnx_gate.shards.plan import make_plan, seconds_if_known

    asked = settings.from_plan(given)
    with errors_told(asked):
        seconds, told = seconds_if_known(given.results)
        manifest = load_manifest(asked.manifest)
        _say_warnings(manifest.warnings)
        plan = make_plan(manifest, asked.options, given.shards, seconds)
        results.publish_plan(plan.outputs[given.print], [*told, *plan.told], plan.outputs, asked, manifest.warnings)
    return EXIT_PASSED


def _merge(given: Namespace) -> int:
    from onnx_gate.baselines.find import beside, find_baseline
    from onnx_gate.cli.progress import tell_results
    from onnx_gate.gate.output import OutputFolder
    from onnx_gate.manifest.text import digest, read_text
    from onnx_gate.publish import results
    from onnx_gate.publish.failures import errors_told
    from onnx_gate.shards.gather import merge_folders, require_apart, require_expected
    from onnx_gate.shards.parts import find_parts

    asked = settings.from_merge(given)
    with errors_told(asked):
        folders, barren = find_parts(given.folders)
        require_apart(asked.output, folders)
        require_expected(asked.options.providers, folders)
        expected = digest(read_text(asked.manifest, given.manifest)) if given.manifest else ""
        earlier = find_baseline(asked.baseline, asked.workflow)
        with OutputFolder(asked.output) as folder:
            result = merge_folders(
                folders, folder, providers=asked.options.providers, manifest_sha256=expected, problems=barren
            )
            _say_warnings(result.warnings)
            tell_results(result.models, sys.stdout)
            return results.publish(beside(result, earlier), asked, folder).exit_code


def _calibrate(given: Namespace) -> int:
    from onnx_gate.kernel import hide
    from onnx_gate.manifest.load import load_manifest

    hide()
    asked = settings.from_calibrate(given)
    manifest = load_manifest(asked.manifest)
    from onnx_gate.calibration.calibrate import tell_and_write, without_variants
    from onnx_gate.cli.estimate import last_seconds
    from onnx_gate.cli.progress import LiveProgress, PlainProgress
    from onnx_gate.cli.signals import Signals
    from onnx_gate.gate.output import OutputFolder
    from onnx_gate.gate.run import run_gate
    from onnx_gate.gate.selection import select_models

    _say_warnings(manifest.warnings)
    bare, signals = without_variants(manifest), Signals()
    select_models(bare, asked.options)
    last = last_seconds(asked.output)
    with signals.held(), OutputFolder(asked.output, beside=asked.manifest) as folder:
        progress = LiveProgress(sys.stdout, last) if asked.live else PlainProgress(sys.stdout, _debugger(asked))
        try:
            result = run_gate(bare, asked.options, folder, progress, signals.raise_if_received, last=last)
        finally:
            progress.close()
    return tell_and_write(result, manifest, asked.manifest, say, write=given.write and result.complete)


def _say_warnings(warnings: Iterable[ManifestWarning]) -> None:
    """Print what may be wrong in the manifest, in the same form as its problems."""
    for warning in warnings:
        say(f"warning: {warning}", sys.stderr)


def _debugger(asked: Settings) -> Callable[[str], None]:
    from onnx_gate.gate.console import command
    from onnx_gate.github.commands import debug

    return (lambda line: command(debug(line))) if asked.debugs else lambda line: None


def _init(given: Namespace) -> int:
    from onnx_gate.first_manifest.init import Wanted, write_first_manifest
    from onnx_gate.first_manifest.survey import Surveyor

    wanted = Wanted(
        paths=tuple(map(Path, given.paths)),
        manifest=Path(given.output),
        data=Path(given.data) if given.data else None,
        load=given.load,
        workflow=given.workflow,
    )
    surveyor = Surveyor(environ=environ.worker_environ(), isolation=environ.isolation())
    write_first_manifest(wanted, surveyor, say)
    return EXIT_PASSED


def _check(given: Namespace) -> int:
    from onnx_gate.manifest.load import load_manifest
    from onnx_gate.wording.numbers import plural

    manifest = load_manifest(Path(given.manifest))
    _say_warnings(manifest.warnings)
    warned = f", {plural(len(manifest.warnings), 'warning')}" if manifest.warnings else ""
    say(f"{manifest.path}: {plural(len(manifest.models), 'model')}, no problems{warned}")
    return EXIT_PASSED


def _report(given: Namespace) -> int:
    from onnx_gate.baselines.find import beside, find_baseline
    from onnx_gate.gate.output import OutputFolder
    from onnx_gate.publish import results
    from onnx_gate.publish.comment import publish_comment
    from onnx_gate.shards.parts import read_result

    known = settings.workflow()
    result = beside(read_result(Path(given.results)), find_baseline(given.baseline, known))
    with OutputFolder(Path(given.output)) as folder:
        result = results.write_reports(result, folder)
    results.say_done(result, folder.path)
    publish_comment(result, CommentMode(given.comment), known)
    return result.exit_code


def _schema(given: Namespace) -> int:
    from onnx_gate.manifest import json_schema
    from onnx_gate.publish import results_schema

    say((json_schema if given.of == "manifest" else results_schema).render().rstrip("\n"))
    return EXIT_PASSED


def _doctor(given: Namespace) -> int:
    from onnx_gate.cli import doctor

    text, healthy = doctor.examine(environ.worker_environ(), environ.isolation())
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
    """Print where an error comes from, for those who run the job again with debug logging on."""
    known = settings.workflow()
    if known.in_actions and known.debug:
        from onnx_gate.gate.console import command
        from onnx_gate.github.commands import debug

        command(debug(traceback.format_exc()))
