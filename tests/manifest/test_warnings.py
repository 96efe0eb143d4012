"""What may be wrong in a manifest: reported with its place, and no reason to refuse it."""

from __future__ import annotations

import pytest

from onnx_gate.records.asked import ManifestWarning
from tests.manifest.conftest import Project, place

ONNX = "id: a, source: m.onnx"


def warnings(project: Project, keys: str, *, defaults: str = "{}") -> tuple[ManifestWarning, ...]:
    """Of a manifest with one model, on line 4."""
    return project.load(f"version: 1\ndefaults: {defaults}\nmodels:\n  - {{{keys}}}\n").warnings


@pytest.mark.parametrize(
    ("provider", "option", "message", "fix"),
    [
        ("cuda", "use_tf23", "onnx-gate knows no option 'use_tf23' of cuda", "did you mean 'use_tf32'?"),
        ("CUDAExecutionProvider", "use_tf23", "onnx-gate knows no option 'use_tf23' of cuda", "did you mean"),
        ("webgpu", "preferedLayout", "onnx-gate knows no option", "did you mean 'preferredLayout'?"),
        ("openvino", "device_typ", "onnx-gate knows no option", "did you mean 'device_type'?"),
        (
            "tensorrt",
            "fp16",
            "onnx-gate knows no option",
            "see the options of tensorrt in ONNX Runtime's documentation",
        ),
        ("cpu", "threads", "onnx-gate knows no option 'threads' of cpu", "remove it; threads, optimisation"),
    ],
)
def test_an_option_that_is_not_known_is_a_warning(
    project: Project, provider: str, option: str, message: str, fix: str
) -> None:
    """A newer release of the provider may have it: it is passed on, and the warning says what may be meant."""
    keys = f"{ONNX}, providers: {{{provider}: {{options: {{{option}: 1}}}}}}"
    [warning] = warnings(project, keys)
    assert place(warning) == (4, 54 + len(provider), f"models[0].providers.{provider}.options.{option}")
    assert (warning.message[: len(message)], warning.fix[: len(fix)]) == (message, fix)
    assert warning.models == ("a",)
    assert project.model(keys).providers[0].options == {option: "1"}


@pytest.mark.parametrize(
    "providers",
    [
        "{cuda: {options: {use_tf32: 0}}}",
        "{rocm: {options: {anything: 1}}}",
        "{cuda: {library: onnxruntime_ep_cuda, options: {anything: 1}}}",
        "[cpu, cuda]",
    ],
)
def test_what_is_known_or_has_no_list_is_no_warning(project: Project, providers: str) -> None:
    """Nothing is known of a plug-in's options, or of those of a provider without a list."""
    assert warnings(project, f"{ONNX}, providers: {providers}") == ()


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ("session: {config: {session.disable_prepackin: 1}}", "models[0].session.config.session.disable_prepackin"),
        (
            "providers: {cuda: {session: {config: {session.disable_prepackin: 1}}}}",
            "models[0].providers.cuda.session.config.session.disable_prepackin",
        ),
    ],
)
def test_an_entry_of_a_session_that_is_nearly_a_known_one_is_a_warning(project: Project, keys: str, path: str) -> None:
    """ONNX Runtime ignores what it doesn't know; an entry that resembles none is somebody's own."""
    [warning] = warnings(project, f"{ONNX}, {keys}")
    assert (warning.path, warning.fix) == (path, "did you mean 'session.disable_prepacking'?")
    assert warnings(project, f"{ONNX}, session: {{config: {{my.own: 1}}}}") == ()


def test_a_warning_of_the_defaults_is_one_for_all_models_that_use_them(project: Project) -> None:
    """At its place under `defaults`; a model with providers of its own isn't concerned."""
    manifest = project.load(
        """
        version: 1
        defaults: {providers: {cpu: {options: {new_in_2: 1}}}}
        models:
          - {id: a, source: m.onnx}
          - {id: own, source: m.onnx, providers: [cpu]}
          - {id: b, source: m.onnx, variants: [fp16]}
        """
    )
    [warning] = manifest.warnings
    assert place(warning) == (3, 40, "defaults.providers.cpu.options.new_in_2")
    assert warning.models == ("a", "b")
    concerned = {model.id for model in manifest.models if warning.concerns(model.base)}
    assert concerned == {"a", "b", "b@fp16"}


def test_warnings_come_in_the_order_of_the_file(project: Project) -> None:
    """Each is a line with its place first, like a problem."""
    found = project.load(
        """
        version: 1
        models:
          - {id: a, source: m.onnx, session: {config: {session.disable_prepackin: 1}},
             providers: {cpu: {options: {z: 1}}}}
          - {id: b, source: m.onnx, providers: {cuda: {options: {b: 1}}, openvino: {options: {a: 1}}}}
        """
    ).warnings
    assert [(warning.line, warning.column) for warning in found] == sorted(
        (warning.line, warning.column) for warning in found
    )
    assert len(found) == 4
    assert str(found[0]).startswith(
        f"{project.manifest}:4:48: models[0].session.config.session.disable_prepackin: onnx-gate knows no entry "
    )
