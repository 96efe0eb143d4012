"""What the user gave: their files, factories and data callables. Runs the user's code, so in workers only."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import importlib
import importlib.metadata
import importlib.util
import inspect
import lzma
import os
import re
import stat
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
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
    if name := _class_of_a_script(error):
        return CannotJudge(
            cause,
            f"{where}: it names the class {name}, which was defined in the script or notebook that saved the model",
            fix=f"move {name} into a module of its own, such as my_model.py beside the manifest, import it from there "
            "in the script, and save the model again",
        )
    if other := other_version(error):
        return CannotJudge(cause, f"{where}: {other.told}{_user_line(error)}", fix=other.fix)
    if isinstance(error, ModuleNotFoundError) and not fix:
        fix = (
            f"{_installing(str(error.name))} (in CI: list it in the file that the `requirements` input names), "
            f"or put {error.name}.py beside the manifest if it is yours"
        )
    return CannotJudge(cause, f"{where}: {describe(error)}{_user_line(error)}", fix=fix or _SEE_LOG)


@dataclass(frozen=True, kw_only=True)
class OtherVersion:
    """A saved object that the installed version of a package can't take."""

    told: str
    """What is so, in a sentence."""
    fix: str
    """Which line to pin, or what to save again."""


def saved_by(title: str, version: str, distribution: str, installed: str, *, what: str = "it") -> OtherVersion:
    """Of a version that is known."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return OtherVersion(
        told=f"{what} was saved by {title} {version}, and {installed} is installed",
        fix=f"pin it: add the line `{distribution}=={version}` to the file that the `requirements` input names (at "
        f"home: pip install '{distribution}=={version}'). Or load it with {version}, and save it again with "
        f"{installed}. If pip has no such version for Python {python}, only saving it again is left",
    )


def other_version(error: BaseException) -> OtherVersion | None:
    """Where loading failed because of the version of an installed package; None for any other reason."""
    package, why = _package_at_fault(error)
    if not package:
        return None
    imported = _import_statement(error)
    distribution = next(iter(importlib.metadata.packages_distributions().get(package, ())), package)
    try:
        installed = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
    info = framework_of_package(package)
    title = info.title if info else distribution
    if imported:
        return OtherVersion(
            told=f"{title} {installed} has no {getattr(error, 'name', '')}, which the code imports",
            fix=f"change `{imported}` to where {installed} has it, or pin the version that the code was written for: "
            f"add the line `{distribution}==…` to the file that the `requirements` input names",
        )
    made = _saved_version(info.saved_version, error) if info and info.saved_version else ""
    if made and made != installed:
        other = saved_by(title, made, distribution, installed)
        return OtherVersion(told=f"{other.told}: {why}", fix=other.fix)
    known = next((pin for name, pin in _RENAMED.items() if name in why), "")
    line = known or f"{distribution}==…"
    return OtherVersion(
        told=f"it was saved by another version of {title} than {installed}, which is installed: {why}",
        fix=f"pin the version that saved it: add the line `{line}` to the file that the `requirements` input names"
        f"{'' if known else ' (run `pip freeze` where the model was trained)'}. Or save it again with "
        f"{distribution} {installed}",
    )


_RENAMED = {"numpy._core": "numpy>=2", "pandas.core.indexes.numeric": "pandas<2"}
"""Modules that say which versions have them."""
_NO_ATTRIBUTE = re.compile(r"Can't get attribute '(\w+)' on <module '([\w.]+)'")
_NO_MEMBER = re.compile(r"module '([\w.]+)' has no attribute '(\w+)'")
"""The same of older protocols of pickle; any code may raise this."""
_UNPICKLING = re.compile(r"\bloads?\(|getattr\(sys\.modules\[")
"""The line that unpickles: in compiled code, or in that of pickle itself."""
_RESTORING = ("__setstate__", "__reduce__", "__cinit__")


def _package_at_fault(error: BaseException) -> tuple[str, str]:
    """An installed package that hasn't got what a saved object names, or refuses its state; and how that shows."""
    if isinstance(error, ModuleNotFoundError) and error.name and "." in error.name:
        package = error.name.partition(".")[0]
        return (package, f"it names {error.name}, which is not there") if _is_installed(package) else ("", "")
    if isinstance(error, AttributeError) and (missing := _missing_name(error)):
        name, module = missing
        package = module.partition(".")[0]
        return (package, f"it names {name} of {module}, which is not there") if _is_installed(package) else ("", "")
    for frame, _ in traceback.walk_tb(error.__traceback__):
        # Files of compiled code are given from the package on.
        package = re.split(r"[/\\]", frame.f_code.co_filename.rpartition("-packages/")[2])[0]
        if frame.f_code.co_name.rpartition(".")[2] in _RESTORING and _is_installed(package):
            # What follows the first sentence is a dump of both states.
            return package, f"{package} refuses its state ({_first_words(error)})"
    return "", ""


def _missing_name(error: AttributeError) -> tuple[str, str] | None:
    """The name that a saved object asks for, and the module that hasn't got it."""
    if found := _NO_ATTRIBUTE.search(str(error)):
        return found[1], found[2]
    frames = traceback.extract_tb(error.__traceback__)
    found = _NO_MEMBER.fullmatch(str(error))
    return (found[2], found[1]) if found and frames and _UNPICKLING.search(frames[-1].line or "") else None


def _class_of_a_script(error: BaseException) -> str:
    """The class of `__main__` that a pickle names; here, `__main__` is a module of the gate."""
    found = _NO_ATTRIBUTE.search(str(error)) if isinstance(error, AttributeError) else None
    package = found[2].partition(".")[0] if found else ""
    return found[1] if found and package in ("__main__", __name__.partition(".")[0]) else ""


def _import_statement(error: BaseException) -> str:
    """The statement that failed, where it is an import that somebody wrote: what is unpickled imports without one."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    line = (frames[-1].line or "").strip() if frames and isinstance(error, ImportError) else ""
    return line if line.startswith(("import ", "from ")) else ""


def _first_words(error: BaseException) -> str:
    return re.split(r":\n|\n|: \{", f"{type(error).__name__}: {error}")[0][:200]


def _is_installed(package: str) -> bool:
    found = package.isidentifier() and package in importlib.metadata.packages_distributions()
    # One that is set to None can't be imported, whatever is installed.
    return found and sys.modules.get(package, sys) is not None


def _saved_version(key: str, error: BaseException) -> str:
    """The version that saved the file whose loading failed, read without running anything in it."""
    version = rb"(\d+\.\d+(?:\.(?:dev|post)?\d+)*(?:(?:rc|a|b)\d+)?)"
    # The opcodes and lengths of a pickle stand between the two.
    pattern = re.compile(re.escape(key.encode()) + rb".{1,16}?" + version, re.DOTALL)
    for path in _files_behind(error):
        with contextlib.suppress(Exception):
            if found := pattern.search(_plain_bytes(path)):
                return found[1].decode()
    return ""


def _files_behind(error: BaseException) -> Iterator[str]:
    """Files that the code which failed was about, the innermost first."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][::-1]
    for value in (value for frame in frames for value in list(frame.f_locals.values())):
        path = getattr(value, "name", value)
        if isinstance(path, str | Path) and 0 < len(str(path)) < LONGEST_MESSAGE:
            with contextlib.suppress(OSError, ValueError):
                if Path(path).is_file():
                    yield str(path)


def _plain_bytes(path: str) -> bytes:
    """The beginning of a file, unpacked where it is packed."""
    with Path(path).open("rb") as raw:
        start = raw.read(4)
    opened = next((opener for sign, opener in _PACKED.items() if start.startswith(sign)), open)
    with opened(path, "rb") as file:
        return bytes(file.read(_MOST_BYTES))


_PACKED: Mapping[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zX": lzma.open}
_MOST_BYTES = 64 * 1024 * 1024


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
    own = str(Path(__file__).parent.parent)
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


def line_of_class(kind: type) -> str:
    """`model.py, line 12` for a class of the user's own; empty for a library's."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    if not file or "site-packages" in file or file.startswith((sys.base_prefix, str(Path(__file__).parent.parent))):
        return ""
    try:
        return f"{Path(file).name}, line {inspect.getsourcelines(kind)[1]}"
    except (OSError, TypeError):
        return Path(file).name


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
