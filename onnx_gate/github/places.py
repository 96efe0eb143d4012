"""Files, as GitHub names them."""

from __future__ import annotations

from pathlib import Path


def place_in_repository(file: str, workspace: Path | None) -> str:
    """A file's path from the top of the repository, whatever folder we are in; as it was given where it isn't in it."""
    if workspace is None:
        return file
    top = workspace.resolve()
    path = Path(file).parent.resolve() / Path(file).name
    if not path.is_relative_to(top):
        return file
    # A checkout may have a folder of its own; a submodule inside it belongs to it.
    folders = [folder for folder in reversed(path.parents) if folder.is_relative_to(top)]
    root = next((folder for folder in folders if (folder / ".git").exists()), top)
    return path.relative_to(root).as_posix()
