"""The output folder: whole files or none, nothing left of an earlier run, and in the right hands."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onnx_gate.cli.main import main
from onnx_gate.errors import UsageError
from onnx_gate.gate.lock import NAME, FolderLock, Held
from onnx_gate.gate.output import LARGEST_MENDED, LARGEST_WEAK_INPUTS, Disk, OutputFolder
from onnx_gate.kernel import MODELS
from onnx_gate.vocabulary import MENDED, REPORTS

OWNER = 1001
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """Who reads the old file while the new one is written reads all of the old one."""
    with OutputFolder(tmp_path / "out") as folder:
        path = folder.write("summary.md", "old " * 1000)
        with path.open() as reader:
            assert reader.read(4) == "old "
            assert folder.write("summary.md", "new") == path
            assert reader.read() == "old " * 999
        assert path.read_text() == "new"
        assert path == tmp_path / "out" / "summary.md"


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    """Half a report is worse than none."""
    with OutputFolder(tmp_path / "out") as folder:
        folder.write("results.json", "old")
        # Wherever the temporary file is to be, something is in its way.
        for place in (folder.work, *filter(Path.is_dir, list(folder.work.iterdir()))):
            (place / "results.json").mkdir()
        with pytest.raises(IsADirectoryError):
            folder.write("results.json", "new")
    assert (tmp_path / "out/results.json").read_text() == "old"


@pytest.mark.parametrize("text", ["ünïcödé 🙂", "lone \ud800", ""])
def test_any_text_can_be_written(tmp_path: Path, text: str) -> None:
    """As UTF-8; what isn't text is spelled out."""
    with OutputFolder(tmp_path / "out") as folder:
        path = folder.write("summary.md", text)
    assert path.read_text(encoding="utf-8") == text.replace("\ud800", "\\ud800")


def test_a_copy_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    """A file that breaks off half way leaves what was there."""

    def breaks_off() -> Iterator[bytes]:
        yield b"new"
        raise OSError("gone")

    with OutputFolder(tmp_path / "out") as folder:
        folder.keep_copy("models", "a.onnx", [b"o", b"ld"])
        with pytest.raises(OSError, match="gone"):
            folder.keep_copy("models", "a.onnx", breaks_off())
    assert (tmp_path / "out/models/a.onnx").read_bytes() == b"old"


def test_an_earlier_runs_reports_are_gone_at_the_start(tmp_path: Path) -> None:
    """A run that dies leaves no report that speaks of another; what isn't a report stays."""
    for name in (*REPORTS, "notes.txt"):
        (tmp_path / name).write_text("earlier")
    with OutputFolder(tmp_path) as folder:
        left = {path.name for path in tmp_path.iterdir()} - {folder.work.name, NAME}
        assert left == {"notes.txt"}


def test_the_work_folder_is_gone_at_the_end(tmp_path: Path) -> None:
    """With all that is in it."""
    with OutputFolder(tmp_path / "out") as folder:
        (folder.work / "m" / "deep").mkdir(parents=True)
        (folder.work / "m" / "deep" / "scratch.bin").write_bytes(b"x")
        folder.write("summary.md", "done")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["summary.md"]


def test_the_work_folder_is_gone_after_an_error(tmp_path: Path) -> None:
    """The error goes on its way; logs are kept."""

    def fail() -> None:
        with OutputFolder(tmp_path / "out") as folder:
            (folder.logs / "m.log").write_text("so far")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["logs"]
    assert (tmp_path / "out/logs/m.log").read_text() == "so far"


def test_models_are_kept_with_their_weights(tmp_path: Path) -> None:
    """What a worker leaves in its scratch folder moves to `models/`; a model without any is no error."""
    with OutputFolder(tmp_path / "out") as folder:
        scratch = folder.scratch / "m"
        scratch.mkdir()
        (scratch / "m.onnx").write_bytes(b"graph")
        (scratch / "m.onnx.data").write_bytes(b"weights")
        folder.keep_model("m", ["m.onnx.data"])
        folder.keep_model("never-converted")
    kept = {path.name: path.read_bytes() for path in (tmp_path / "out/models").iterdir()}
    assert kept == {"m.onnx": b"graph", "m.onnx.data": b"weights"}


def test_what_a_model_may_not_leave_is_not_kept(tmp_path: Path) -> None:
    """Links, pipes and files of another model's name: its code may have put anything into its folder."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    with OutputFolder(tmp_path / "out") as folder:
        scratch = folder.scratch / "m"
        (scratch / "float32").mkdir(parents=True)
        (scratch / "m.onnx").write_bytes(b"graph")
        (scratch / "m.onnx.0.data").write_bytes(b"weights")
        (scratch / "m.onnx.1.data").write_bytes(b"not named")
        (scratch / "page.html").write_bytes(b"named, and no name for weights")
        (scratch / "other.onnx").write_bytes(b"forged")
        (scratch / "m.onnx.onnx").write_bytes(b"forged")
        (scratch / "m.onnx.data").symlink_to(secret)
        (scratch / "folder").symlink_to(tmp_path)
        (scratch / "hard").hardlink_to(secret)
        os.mkfifo(scratch / "m.onnx.2.data")
        named = [*(path.name for path in scratch.iterdir() if path.name != "m.onnx.1.data"), "../secret", "/etc/passwd"]
        folder.keep_model("m", named)
        assert not scratch.exists()
    assert {path.name for path in (tmp_path / "out/models").iterdir()} == {"m.onnx", "m.onnx.0.data"}
    assert secret.read_text() == "secret"


def leave_inputs(scratch: Path, kind: str) -> None:
    """What a model's code may put in the place of inputs that catch survivors."""
    file, other = scratch / "weak-inputs.npz", scratch / "other"
    other.write_bytes(b"inputs")
    if kind == "link":
        file.symlink_to(other)
    elif kind == "second name":
        file.hardlink_to(other)
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind != "nothing":
        file.write_bytes(b"inputs")
        os.truncate(file, {"file": 6, "largest": LARGEST_WEAK_INPUTS, "too large": LARGEST_WEAK_INPUTS + 1}[kind])


@pytest.mark.parametrize("kind", ["file", "largest", "too large", "link", "second name", "pipe", "folder", "nothing"])
def test_inputs_that_catch_survivors_are_kept_where_they_are_a_plain_file(tmp_path: Path, kind: str) -> None:
    """Named after the model, and not opened: a model's code may have written anything."""
    with OutputFolder(tmp_path / "out") as folder:
        (folder.scratch / "m").mkdir()
        leave_inputs(folder.scratch / "m", kind)
        assert folder.keep_weak_inputs("m") is (kind in ("file", "largest"))
        folder.keep_model("m")
    kept = [path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert kept == (["weak-inputs/m.npz"] if kind in ("file", "largest") else [])


@pytest.mark.parametrize(
    "kind", ["file", "link", "second name", "pipe", "folder", "nothing", "too large", "linked folder"]
)
def test_a_mended_model_is_kept_where_it_is_a_plain_file(tmp_path: Path, kind: str) -> None:
    """In the folder of its model, unless that leads elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with OutputFolder(tmp_path / "out") as folder:
        scratch = folder.scratch / "m"
        scratch.mkdir()
        leave_inputs(scratch, "file" if kind == "linked folder" else kind)
        if kind not in ("nothing",):
            (scratch / "weak-inputs.npz").rename(scratch / MENDED)
        if kind == "too large":
            os.truncate(scratch / MENDED, LARGEST_MENDED + 1)
        if kind == "linked folder":
            (tmp_path / "out/repro").mkdir()
            (tmp_path / "out/repro/m").symlink_to(elsewhere)
        assert folder.keep_mended("m") == ("repro/m/mended.onnx" if kind == "file" else "")
    kept = (tmp_path / "out/repro/m/mended.onnx").is_file()
    assert kept is (kind == "file")
    assert list(elsewhere.iterdir()) == []


def test_a_model_that_an_earlier_run_mended_is_gone(tmp_path: Path) -> None:
    """It is of another file, and nobody would notice."""
    mended = tmp_path / "out/repro/m/mended.onnx"
    mended.parent.mkdir(parents=True)
    mended.touch()
    (mended.parent / "mine.txt").touch()
    with OutputFolder(tmp_path / "out"):
        pass
    assert [path.name for path in mended.parent.iterdir()] == ["mine.txt"]


def test_inputs_that_an_earlier_run_offered_are_gone(tmp_path: Path) -> None:
    """They are of other inputs, and nobody would notice; what is no such file stays."""
    offered = tmp_path / "out/weak-inputs"
    offered.mkdir(parents=True)
    for name in ("a.npz", "mine.txt"):
        (offered / name).touch()
    (offered / "folder.npz").mkdir()
    with OutputFolder(tmp_path / "out"):
        pass
    assert sorted(path.name for path in offered.iterdir()) == ["folder.npz", "mine.txt"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root refuses the link itself")
def test_nothing_is_removed_behind_a_link(tmp_path: Path) -> None:
    """It may lead to somebody's data."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "train.npz").touch()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/weak-inputs").symlink_to(data)
    with OutputFolder(tmp_path / "out"):
        pass
    assert (data / "train.npz").exists()


def test_folders_of_any_depth_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deeper than Python's stack."""
    with OutputFolder(tmp_path / "out") as folder:
        deep = folder.scratch / "m"
        deep.mkdir()
        monkeypatch.chdir(deep)
        for _ in range(1500):
            Path("d").mkdir()
            os.chdir("d")
        monkeypatch.chdir(tmp_path)
        folder.keep_model("m")
        assert not deep.exists()


@pytest.mark.parametrize("left", ["nothing", "link", "folder", "empty"])
def test_without_a_model_nothing_is_kept(tmp_path: Path, left: str) -> None:
    """Nor where something else is in its place."""
    with OutputFolder(tmp_path / "out") as folder:
        scratch = folder.scratch / "m"
        scratch.mkdir()
        (scratch / "m.onnx.data").write_bytes(b"anything")
        {
            "nothing": lambda path: None,
            "link": lambda path: path.symlink_to("m.onnx.data"),
            "folder": lambda path: path.mkdir(),
            "empty": lambda path: path.touch(),
        }[left](scratch / "m.onnx")
        folder.keep_model("m", ["m.onnx.data"])
    kept = [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert sorted(kept) == (["m.onnx", "m.onnx.data"] if left == "empty" else [])


@as_root
@pytest.mark.parametrize("owner", [0, OWNER])
def test_files_of_models_go_to_the_owner_too(tmp_path: Path, owner: int) -> None:
    """Also to root, with the mode of a file that anybody may read and nobody runs."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    os.chown(workspace, owner, owner)
    with OutputFolder(workspace / "out") as folder:
        file = folder.logs / "m.log"
        file.write_text("log")
        os.chown(file, MODELS[0], MODELS[0])
        file.chmod(0o6700)
    log = (workspace / "out/logs/m.log").stat()
    assert (log.st_uid, log.st_gid, log.st_mode & 0o7777) == (owner, owner, 0o644)


@pytest.mark.parametrize("model_id", ["logs", "scratch", "reports", "summary.md"])
def test_a_model_may_be_called_anything(tmp_path: Path, model_id: str) -> None:
    """Its files, its log and the reports don't get in each other's way."""
    with OutputFolder(tmp_path / "out") as folder:
        (folder.scratch / model_id).mkdir()
        (folder.scratch / model_id / f"{model_id}.onnx").write_bytes(b"graph")
        (folder.logs / f"{model_id}.log").write_text("log")
        folder.keep_model(model_id)
        folder.write("summary.md", "told")
    kept = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert kept == {f"models/{model_id}.onnx", f"logs/{model_id}.log", "summary.md"}


@pytest.mark.parametrize("output", [".", "..", "sub/..", "../.."])
def test_reports_beside_the_manifest_are_refused(tmp_path: Path, output: str) -> None:
    """They could overwrite files of the same names; nothing is touched."""
    home = tmp_path / "a" / "b"
    (home / "sub").mkdir(parents=True)
    manifest, mine = home / "onnx-gate.yml", home / "summary.md"
    manifest.touch()
    mine.write_text("mine")
    with pytest.raises(UsageError, match=r"--output.*the manifest is in this folder.*Fix: "):
        OutputFolder(home / output, beside=manifest)
    assert mine.read_text() == "mine"


def test_a_folder_below_the_manifest_is_fine(tmp_path: Path) -> None:
    """The default is one."""
    (tmp_path / "onnx-gate.yml").touch()
    with OutputFolder(tmp_path / "onnx-gate-report", beside=tmp_path / "onnx-gate.yml") as folder:
        folder.write("summary.md", "x")
    assert (tmp_path / "onnx-gate-report/summary.md").exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A file in its place is the caller's mistake, told with a fix."""
    (tmp_path / "out").write_text("a file")
    with pytest.raises(UsageError, match=r"--output .*can't be written.*Fix: "):
        OutputFolder(tmp_path / "out")


@as_root
@pytest.mark.parametrize("output", ["out", "deep/er/out"])
def test_files_go_to_the_owner_of_the_workspace(tmp_path: Path, output: str) -> None:
    """As root in a container: all that was made, folders on the way included, is the owner's in the end."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    os.chown(workspace, OWNER, OWNER)
    with OutputFolder(workspace / output) as folder:
        (folder.logs / "m.log").write_text("log")
        folder.write("summary.md", "x")
    made = list(workspace.rglob("*"))
    assert {"summary.md", "logs", "m.log", "out"} <= {path.name for path in made}
    assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(OWNER, OWNER)}


@as_root
def test_links_are_not_followed(tmp_path: Path) -> None:
    """A link in the output folder doesn't give away what it points to."""
    workspace, elsewhere = tmp_path / "workspace", tmp_path / "elsewhere"
    (workspace / "out").mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "secret").touch()
    os.chown(workspace, OWNER, OWNER)
    (workspace / "out" / "file").symlink_to(elsewhere / "secret")
    (workspace / "out" / "folder").symlink_to(elsewhere)
    with OutputFolder(workspace / "out"):
        pass
    assert {path.stat().st_uid for path in (elsewhere, elsewhere / "secret")} == {0}


@as_root
@pytest.mark.parametrize("link", ["out", "out/models", "out/logs", "out/weak-inputs", "above"])
def test_root_follows_no_link_of_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str) -> None:
    """A pull request could have put one there; nothing is written to where it leads."""
    elsewhere, workspace = tmp_path / "elsewhere", tmp_path / "workspace"
    elsewhere.mkdir()
    (elsewhere / "summary.md").write_text("theirs")
    (workspace / link).parent.mkdir(parents=True)
    (workspace / link).symlink_to(elsewhere)
    monkeypatch.chdir(workspace)
    output = Path("above/out") if link == "above" else Path("out")
    with pytest.raises(UsageError, match=r"--output .* is a link, which is not followed by root\. Fix: "):
        OutputFolder(output)
    assert [path.read_text() for path in elsewhere.iterdir()] == ["theirs"]


@as_root
def test_roots_own_workspace_stays_roots(tmp_path: Path) -> None:
    """At one's own desk, as root, nothing changes hands."""
    with OutputFolder(tmp_path / "out") as folder:
        path = folder.write("summary.md", "x")
    assert path.stat().st_uid == 0


# ── Disks that fail ─────────────────────────────────────────────────────────────────────────────────────


class FullDisk(Disk):
    """No room from some moment on: then nothing can be made, and a file is cut short."""

    def __init__(self) -> None:
        self.full_after: int | None = None
        """So many more times it works; None while it always does."""

    def _use(self, path: Path) -> None:
        if self.full_after is not None:
            self.full_after -= 1
            if self.full_after < 0:
                raise OSError(errno.ENOSPC, "No space left on device", str(path))

    def make_folder(self, path: Path, **options: Any) -> None:
        self._use(path)
        super().make_folder(path, **options)

    def write(self, path: Path, pieces: Iterable[bytes]) -> None:
        path.write_bytes(b"cut sh")
        self._use(path)
        super().write(path, pieces)

    def replace(self, path: Path, target: Path) -> None:
        self._use(path)
        super().replace(path, target)


@pytest.mark.parametrize("works", range(8))
def test_reports_are_written_all_or_none(tmp_path: Path, works: int) -> None:
    """At whichever of the eight steps the disk is full."""
    disk = FullDisk()
    with OutputFolder(tmp_path / "out", disk=disk) as folder:
        disk.full_after = works
        with pytest.raises(OSError, match="No space left"):
            folder.write_all({name: [b"text"] for name in REPORTS})
        disk.full_after = None
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("works", range(5))
def test_a_disk_that_is_full_at_the_start_is_refused(tmp_path: Path, works: int) -> None:
    """Nothing was run, and nothing stays."""
    disk = FullDisk()
    disk.full_after = works
    with pytest.raises(UsageError, match=r"--output .*can't be written \(No space left on device.*Fix: "):
        OutputFolder(tmp_path / "out", disk=disk)
    assert list(tmp_path.glob("out/*")) == []


def test_logs_that_cannot_be_kept_take_no_verdict_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was written before stays, and somebody says so."""
    disk = FullDisk()
    with OutputFolder(tmp_path / "out", disk=disk) as folder:
        (folder.logs / "m.log").write_text("log")
        folder.write("results.json", "verdict")
        disk.full_after = 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["results.json"]
    said = capsys.readouterr().err
    assert said == f"onnx-gate: {tmp_path}/out: the logs could not be kept (No space left on device)\n"


# ── One run at a time ───────────────────────────────────────────────────────────────────────────────────

REFUSED = (
    r"--output .*out: another run is writing to this folder\. Fix: wait until it has ended, or name another folder"
)


def hidden(folder: Path) -> list[str]:
    """What a run leaves beside its reports."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_a_second_run_into_one_folder_is_refused(tmp_path: Path) -> None:
    """And what the first one has written stays."""
    with OutputFolder(tmp_path / "out") as folder:
        folder.write("results.json", "first")
        before = sorted((tmp_path / "out").rglob("*"))
        with pytest.raises(UsageError, match=REFUSED):
            OutputFolder(tmp_path / "out")
        assert sorted((tmp_path / "out").rglob("*")) == before
        folder.write("summary.md", "first")
    assert hidden(tmp_path / "out") == []
    with OutputFolder(tmp_path / "out"):
        assert not (tmp_path / "out/results.json").exists()


def test_a_folder_that_cannot_be_used_is_not_locked(tmp_path: Path) -> None:
    """Nor does anything else stay of a run that was refused."""
    (tmp_path / "out/summary.md").mkdir(parents=True)
    for _ in range(2):
        with pytest.raises(UsageError, match="can't be written"):
            OutputFolder(tmp_path / "out")
    assert hidden(tmp_path / "out") == []


def test_of_two_commands_one_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With exit code 2, whichever command it is, and what to do."""
    (tmp_path / "m.onnx").write_bytes(b"never read")
    (tmp_path / "m.yml").write_text("version: 1\nmodels: [{id: m, source: m.onnx}]\n")
    with OutputFolder(tmp_path / "out") as folder:
        folder.write("summary.md", "first")
        assert main(["run", str(tmp_path / "m.yml"), "--output", str(tmp_path / "out")]) == 2
        assert (tmp_path / "out/summary.md").read_text() == "first"
    assert "another run is writing to this folder. Fix: " in capsys.readouterr().err


HOLDS = """
import sys, time
from pathlib import Path
from onnx_gate.gate.output import OutputFolder
with OutputFolder(Path(sys.argv[1])) as folder:
    (folder.scratch / "m").mkdir()
    print(flush=True)
    time.sleep(600)
"""


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """Its lock goes with it, its work folder with the next run."""
    mine = [tmp_path / "out" / name for name in (".work-notes", ".workshop", ".work-abcdefgh")]
    with subprocess.Popen([sys.executable, "-c", HOLDS, tmp_path / "out"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(UsageError, match=REFUSED):
            OutputFolder(tmp_path / "out")
        process.send_signal(signal.SIGKILL)
    assert [name[:6] for name in hidden(tmp_path / "out")] == [NAME[:6], ".work-"]
    for path in mine[:2]:
        path.mkdir()
    mine[2].write_text("a file")
    with OutputFolder(tmp_path / "out") as folder:
        assert hidden(tmp_path / "out") == sorted([NAME, folder.work.name, *(path.name for path in mine)])
    assert hidden(tmp_path / "out") == sorted(path.name for path in mine)


def test_a_link_is_no_work_folder(tmp_path: Path) -> None:
    """What it leads to is not touched."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").touch()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/.work-abcdefgh").symlink_to(tmp_path / "elsewhere")
    with OutputFolder(tmp_path / "out"):
        pass
    assert (tmp_path / "elsewhere/file").exists()


@pytest.mark.parametrize("other", ["link", "folder"])
def test_something_else_in_the_place_of_the_lock(tmp_path: Path, other: str) -> None:
    """It is not followed, and nothing is written there."""
    (tmp_path / "out").mkdir()
    if other == "link":
        (tmp_path / "out" / NAME).symlink_to(tmp_path / "elsewhere")
    else:
        (tmp_path / "out" / NAME).mkdir()
    with pytest.raises(UsageError, match=r"can't be written .*onnx-gate\.lock"):
        OutputFolder(tmp_path / "out")
    assert not (tmp_path / "elsewhere").exists()


def test_without_locks_nothing_of_others_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems have none: the run goes on beside what may be somebody's."""

    def no_locks(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with OutputFolder(tmp_path / "out") as first, OutputFolder(tmp_path / "out") as second:
        assert first.work.exists()
        second.write("summary.md", "second")
    assert hidden(tmp_path / "out") == []
    assert (tmp_path / "out/summary.md").read_text() == "second"


def test_of_many_at_once_one_at_a_time_has_the_lock(tmp_path: Path) -> None:
    """Also while the file of the lock comes and goes."""
    inside, most, taken = [0], [0], [0]
    until = time.monotonic() + 1

    def take_turns() -> None:
        while time.monotonic() < until:
            try:
                lock = FolderLock(tmp_path)
            except Held:
                continue
            inside[0] += 1
            most[0], taken[0] = max(most[0], inside[0]), taken[0] + 1
            time.sleep(0)
            inside[0] -= 1
            lock.release()

    threads = [threading.Thread(target=take_turns) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most[0], hidden(tmp_path)) == (1, [])
    assert taken[0] > 8


def test_what_a_run_starts_does_not_hold_its_lock(tmp_path: Path) -> None:
    """A process that outlives the run must not refuse the next one."""
    with OutputFolder(tmp_path / "out"):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    with OutputFolder(tmp_path / "out"):
        child.communicate(b"\n")
