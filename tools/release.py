"""Sets the images of a release in the actions, or checks that they are set.

`python tools/release.py 1.2.3` rewrites action.yml and gpu/action.yml; `--check v1.2.3` fails if parts of the release
don't fit together. The tagged commit holds the result, so that users of the action don't have to build the image.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

IMAGE = "ghcr.io/onnx-gate/onnx-gate"
# The file, the line that names the image, and the image name in a release.
POINTERS = (
    ("action.yml", re.compile(r"^(  image: )\S+$", re.MULTILINE), f"docker://{IMAGE}:v{{version}}"),
    (
        "gpu/action.yml",
        re.compile(rf"^(    default: ){re.escape(IMAGE)}\S+$", re.MULTILINE),
        f"{IMAGE}:v{{version}}-gpu",
    ),
)


def point(root: Path, version: str) -> None:
    """Write the image of this version into both actions."""
    for name, line, target in POINTERS:
        file = root / name
        text, count = line.subn(rf"\g<1>{target.format(version=version)}", file.read_text(encoding="utf-8"))
        if count != 1:
            raise SystemExit(f"{name}: got {count} lines that name the image, expected 1")
        file.write_text(text, encoding="utf-8")


def problems(root: Path, version: str) -> list[str]:
    """Parts of the release that don't fit together."""
    found = []
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        return [f"got the version {version!r}, expected three numbers, such as 1.2.3"]
    package = (root / "onnx_gate/__init__.py").read_text(encoding="utf-8")
    if f'__version__ = "{version}"' not in package:
        found.append(f"onnx_gate/__init__.py: expected __version__ to be {version}")
    if f"\n## {version}\n" not in (root / "CHANGELOG.md").read_text(encoding="utf-8"):
        found.append(f"CHANGELOG.md: expected a section `## {version}`")
    return found


def unpointed(root: Path, version: str) -> list[str]:
    """The actions that don't name this release's image."""
    return [
        f"{name}: expected it to name {target.format(version=version)}. Fix: make release VERSION={version}"
        for name, line, target in POINTERS
        if not any(
            found[0].endswith(f" {target.format(version=version)}")
            for found in line.finditer((root / name).read_text(encoding="utf-8"))
        )
    ]


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    root = Path(__file__).parents[1]
    check = arguments[:1] == ["--check"]
    version = arguments[-1].removeprefix("v") if arguments else ""
    wrong = problems(root, version) + (unpointed(root, version) if check else [])
    if not wrong and not check:
        point(root, version)
    print(*wrong, sep="\n", file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
