"""Install what the user's model code imports, beside our own packages and for one run only.

A package runs code while it is installed, and the author of a pull request controls a requirements file as much as a
model. So nothing is installed where the gate itself imports from, and with isolation nothing is installed as root.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from onnx_gate.errors import UsageError
from onnx_gate.gate.console import say
from onnx_gate.gate.output import remove
from onnx_gate.kernel import INSTALLER, become, end_all
from onnx_gate.processes.seclusion import secluded
from onnx_gate.records.asked import RunOptions

_LONGEST = 4 * 1024 * 1024
_INSTALL = ("-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--requirement")


@contextmanager
def installed(path: Path | None, environ: Mapping[str, str], options: RunOptions) -> Iterator[str | None]:
    """The folder with all that the file asks for and that isn't installed yet; it is removed when the block ends."""
    if path is None:
        yield None
        return
    if not path.is_file():
        raise UsageError(f"input 'requirements': {path} does not exist. Fix: give a path from the repository's top")
    folder = Path(tempfile.mkdtemp(prefix="onnx-gate-packages-"))
    try:
        with secluded(options, folder=path.parent, work=folder, needed=named_by_pip(environ, options)):
            packages = _install(path, folder, environ, isolated=options.isolation == "uids")
        yield packages
    finally:
        remove(folder)


def named_by_pip(environ: Mapping[str, str], options: RunOptions) -> list[Path]:
    """The paths that pip's own variables name, such as PIP_CONFIG_FILE; also credentials, which only pip can use."""
    values = [value for name, value in environ.items() if name not in options.environ]
    return [Path(part.removeprefix("file://")) for value in values for part in value.split()]


def _install(path: Path, folder: Path, environ: Mapping[str, str], *, isolated: bool) -> str:
    """Install into an environment on top of ours: it finds our packages, and new packages go into it."""
    home, layer = folder / "home", folder / "layer"
    folder.chmod(0o755)
    for each in (home, layer):
        each.mkdir(mode=0o755)
        if isolated:
            os.chown(each, INSTALLER, INSTALLER)
    environ = {**environ, "HOME": str(home), "TMPDIR": str(home)}
    _run([sys.executable, "-I", "-m", "venv", "--without-pip", str(layer)], environ, path, isolated=isolated)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(layer), "installed_base": str(layer)}))
    ours = [entry for entry in sys.path if entry.endswith("-packages")]
    (packages / "onnx-gate.pth").write_text("\n".join(ours))
    say(f"onnx-gate: installing {path}")
    _run([str(layer / "bin/python"), "-P", *_INSTALL, str(path)], environ, path, isolated=isolated)
    return str(packages)


def _run(command: list[str], environ: Mapping[str, str], path: Path, *, isolated: bool) -> None:
    with tempfile.TemporaryFile() as log:
        done = subprocess.run(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=False,
            preexec_fn=_become_installer if isolated else None,
        )
        if isolated:
            end_all(INSTALLER)
        log.seek(0)
        _show(log.read(_LONGEST).decode("utf-8", "replace"))
    if done.returncode:
        raise UsageError(
            f"input 'requirements': pip could not install {path} (exit code {done.returncode}, its words are above). "
            "Fix: correct the file; a project that is built in the repository (`.`, `-e .`) has to come as a wheel, "
            "because nothing is written to the repository"
        )


def _become_installer() -> None:
    become(INSTALLER)
    # Models have to read what this user installs.
    os.umask(0o022)


def _show(text: str) -> None:
    """Print each line with a prefix: at the start of a line, the text of a package could be a workflow command."""
    for line in text.splitlines():
        say(f"  pip: {''.join(char if char.isprintable() else ' ' for char in line)}")
