"""The workflow that runs the gate in GitHub Actions: examples/workflows/cpu.yml, for this manifest."""

from __future__ import annotations

from onnx_gate.first_manifest.text import quoted

PLACE = ".github/workflows/onnx-gate.yml"
"""The path of the workflow, from the top of the repository."""
_TEXT = """\
# The whole gate in one job: every model of onnx-gate.yml on the CPU, with a comment on the pull request.
name: Models

on:
  pull_request:
  push:
    branches: [main]

permissions: {}

concurrency:
  group: ${{ github.workflow }}-${{ github.ref }}
  cancel-in-progress: ${{ github.event_name == 'pull_request' }}

jobs:
  gate:
    runs-on: ubuntu-24.04
    timeout-minutes: 30
    permissions:
      contents: read
      pull-requests: write # the comment; a pull request from a fork gets a read-only token: see fork-gate.yml
    steps:
      - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2
        with:
          persist-credentials: false # model code could read them
          lfs: true # where models are kept in Git LFS
      - uses: onnx-gate/onnx-gate@4f4b480c2ac2804b40646b5228d2a83cf8656185 # main
        with:
          manifest: MANIFEST
"""


def workflow_text(manifest: str) -> str:
    """The workflow for a manifest, whose path is from the top of the repository."""
    return _TEXT.replace("MANIFEST", quoted(manifest))
