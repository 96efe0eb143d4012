"""What the user gave: their files, factories and data callables. Runs the user's code, so in workers only."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import stat
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.registry import framework_of_package
from onnx_gate.records.asked import Location, ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.hints import suggest

LONGEST_MESSAGE = 700
ANSI = re.compile(r"\x1b\[[0-9;]*m")
_SEE_LOG = "correct what raises it; the whole traceback is in the model's log"
_LFS = b"version https://git-lfs"


def require_content(path: str, shown: str) -> None:
    """Refuse what only looks like the file: an empty one, or the pointer that Git LFS leaves in its place."""
    with Path(path).open("rb") as file:
        start = file.read(len(_LFS))
    if not start:
        raise CannotJudge(
            Cause.LOAD_FAILED, f"{shown}: the file is empty", fix="check how it was written or checked out"
        )
    if start == _LFS:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{shown}: this is a Git LFS pointer, not the file itself (LFS file not pulled)",
            fix="run `git lfs pull`, or check out with `lfs: true`",
        )


def prepare_import_path(folder: str, *files: str | None) -> None:
    """Let the user's code import its neighbours: the manifest's folder first, then the files' own."""
    wanted = [folder, *(str(Path(file).parent) for file in files if file)]
    for entry in reversed(dict.fromkeys(wanted)):
        if entry in sys.path:
            sys.path.remove(entry)
        sys.path.insert(0, entry)


def call(location: Location, folder: str) -> Any:
    """Call the user's factory or data callable."""
    prepare_import_path(folder, location.file)
    try:
        module = _import_file(Path(location.file)) if location.file else importlib.import_module(str(location.module))
        function = getattr(module, str(location.callable), None)
        if not callable(function):
            raise _no_function(location, module)
        return function()
    except CannotJudge:
        raise
    except MemoryError:
        raise
    except BaseException as error:
        called = error.__traceback__ is not None and error.__traceback__.tb_next is None
        fix = "it is called without arguments" if isinstance(error, TypeError) and called else ""
        raise failed(Cause.LOAD_FAILED, location.shown, error, fix=fix) from error


def registered(spec: ModelSpec, entry: str) -> Mapping[Any, Any]:
    """What the `register` hook returns: translations for a converter, each like `entry`."""
    if spec.register is None:
        return {}
    table = call(spec.register, spec.folder)
    if table is not None and not isinstance(table, Mapping):
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{spec.register.shown}: got {kind_of(table)}, expected None or a dict {{operator: function}}",
            fix=f"return {{{entry}}}, or nothing",
        )
    return table or {}


def failed(cause: Cause, where: str, error: BaseException, *, fix: str = "") -> CannotJudge:
    """What an exception in the user's or a library's code says, with the line that it came from."""
    if isinstance(error, SystemExit):
        return CannotJudge(
            cause,
            f"{where}: the code called sys.exit({error.code!r}), expected it to return{_user_line(error)}",
            fix="raise an exception instead",
        )
    if isinstance(error, ModuleNotFoundError) and not fix:
        fix = (
            f"{_installing(str(error.name))} (in CI: list it in the file that the `requirements` input names), "
            f"or put {error.name}.py beside the manifest if it is yours"
        )
    return CannotJudge(cause, f"{where}: {describe(error)}{_user_line(error)}", fix=fix or _SEE_LOG)


def _installing(module: str) -> str:
    """With what converts its models, where it is a framework."""
    info = framework_of_package(module.partition(".")[0])
    return info.installing([info.package]) if info and info.extra else f"install {module!r}"


def describe(error: BaseException) -> str:
    """The innermost cause of an exception, cut to a readable length."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    return shorten(f"{type(root).__name__}: {root}" if str(root) else type(root).__name__)


def kind_of(value: object) -> str:
    """What the user's code returned, for `got …, expected …`."""
    if value is None:
        return "None"
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


def shorten(text: str) -> str:
    """Long messages keep their beginning and their end; what no file can hold is spelled out."""
    text = ANSI.sub("", text.encode("utf-8", "backslashreplace").decode("utf-8")).strip()
    if len(text) <= LONGEST_MESSAGE:
        return text
    kept = LONGEST_MESSAGE - 200
    left_out = f"[{len(text) - LONGEST_MESSAGE:,} characters more in the log]"
    return f"{text[:kept].rstrip()} … {left_out} … {text[-150:].lstrip()}"


def _import_file(path: Path) -> ModuleType:
    # Under its own name, so that pickles that name classes of this file find them; unless that is a package's,
    # which a user's file of the same name must not replace.
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path):
        # A file that registers converters for its own classes has to keep these classes.
        return known
    taken = known is not None
    name = f"onnx_gate_user_{path.stem}" if taken else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} can't be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _no_function(location: Location, module: ModuleType) -> CannotJudge:
    functions = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
    found = ", ".join(functions[:10]) or "none"
    return CannotJudge(
        Cause.LOAD_FAILED,
        f"{location.shown}: there is no function {location.callable!r}; found: {found}",
        fix=suggest(location.callable, functions) or "name a function without parameters",
    )


def _user_line(error: BaseException) -> str:
    """Where in the user's files it happened: the last frame outside of installed packages and ourselves."""
    own = str(Path(__file__).parent)
    if error.__cause__ is not None and (line := _user_line(error.__cause__)):
        return line
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "site-packages" not in frame.filename
        and not frame.filename.startswith((own, sys.base_prefix, "<"))
        and Path(frame.filename).exists()
    ]
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


def require_access(spec: ModelSpec, scratch: str) -> None:
    """All that the manifest names can be read, and the scratch folder written to; raises CannotJudge."""
    for path in named_files(spec):
        _require(path, os.R_OK)
    _require(Path(scratch), os.W_OK)


def named_files(spec: ModelSpec) -> list[Path]:
    """Files and folders that the manifest names for a model."""
    given = (spec.source, spec.data, spec.register, spec.variant and spec.variant.data)
    files = (*(place.file for place in given if place), spec.onnx, spec.weights, spec.ort_custom_ops)
    return [Path(file) for file in files if file]


def _require(path: Path, mode: int) -> None:
    for folder in reversed(path.parents):
        if not os.access(folder, os.X_OK):
            raise _blocked(path, folder)
    if not os.access(path, mode | os.X_OK if path.is_dir() else mode):
        raise _blocked(path, path)


def _blocked(path: Path, at: Path) -> CannotJudge:
    mode = stat.filemode(at.stat().st_mode)
    where = "" if at == path else f": {at} is {mode}"
    shown = f"{path} ({mode})" if at == path else str(path)
    return CannotJudge(
        Cause.LOAD_FAILED,
        f"the user that the model runs as (uid {os.geteuid()}) can't get to {shown}{where}",
        fix=f"let others read it, in a step before this one: chmod -R o+rX {at}. Files with credentials stay shut",
    )
