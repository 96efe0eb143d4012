"""Open a session on a provider, and prove that it is on it.

ONNX Runtime falls back to the CPU without an error: it says that a provider is available, fails to load it,
logs a line and answers from the CPU. What counts here is what the session itself says after it was made, and
after it ran.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnxruntime as ort

from onnx_gate.errors import NotAvailable
from onnx_gate.providers import PROVIDERS, provider_info
from onnx_gate.records.asked import ProviderSpec
from onnx_gate.records.found import Actual
from onnx_gate.records.ran import Placement
from onnx_gate.worker.runtime.availability import did_not_load, lost, not_built_in
from onnx_gate.worker.runtime.options import load_failed, session_options
from onnx_gate.worker.runtime.placement import RECORD, assigned, fell_back, profiled, proven
from onnx_gate.worker.runtime.plugins import plugin_devices
from onnx_gate.worker.runtime.values import plain_value, run_session


class Session:
    """A session that is on the provider asked for, or raises NotAvailable when its first run shows that it isn't."""

    def __init__(self, session: Any, provider: ProviderSpec, name: str) -> None:
        self.placement: Placement | None = assigned(session, name)
        """Which nodes are where; None where the runtime doesn't tell. Final after the first run."""
        reported = session.get_provider_options().get(name, {})
        self.options: Mapping[str, str] = options_in_force(provider, reported)
        """The provider's options in force."""
        self.not_taken = not_taken(provider, reported)
        """Options that were asked for and that it ignores."""
        self._session = session
        self._provider = provider
        self._name = name
        self._proven = provider.name == "cpu"
        self._fell_back: NotAvailable | None = None

    def run(self, feed: dict[str, Any]) -> dict[str, Actual]:
        """Feed → answers by output name."""
        if self._fell_back:
            raise self._fell_back
        try:
            answers = run_session(self._session, feed)
        except Exception as error:
            if (told := lost(self._provider, str(error))) is not None:
                raise told from error
            raise
        if not self._proven:
            self._prove()
        return {name: as_actual(value) for name, value in answers.items()}

    def bare(self, feed: dict[str, Any]) -> object:
        """The same run alone, which keeps its memory from call to call as a server does: what is timed."""
        return run_session(self._session, feed, keep_memory=True) if self._proven else self.run(feed)

    def _prove(self) -> None:
        """From the profile of the first run that succeeded."""
        self._proven = True
        profile = Path(self._session.end_profiling())
        self.placement = proven(self.placement, profiled(profile, self._name))
        profile.unlink(missing_ok=True)
        self._fell_back = fell_back(self._provider, self.placement)
        if self._fell_back:
            raise self._fell_back


def open_session(
    path: str,
    provider: ProviderSpec,
    read_log: Callable[[], str],
    *,
    optimize: bool = True,
    custom_ops: str | None = None,
    profiles: Path | None = None,
) -> Session:
    """A session of the model on the provider; raises NotAvailable where it would be on another one.

    The first run on any provider but the CPU is profiled, into the folder `profiles`, to prove where its nodes ran.
    """
    options = session_options(optimize=optimize, custom_ops=custom_ops, asked=provider.session)
    options.add_session_config_entry(RECORD, "1")
    if provider.name != "cpu":
        folder = profiles or Path(tempfile.gettempdir())
        folder.mkdir(exist_ok=True)
        options.enable_profiling = True
        options.profile_file_prefix = str(folder / f"onnx-gate-profile-{provider.name}")
    name, given = choose_provider(provider, options)
    if not provider.library:
        # What was said before is no reason.
        read_log()
    try:
        session = ort.InferenceSession(path, options, **given)
    except Exception as error:
        raise _refused(error, provider, path, custom_ops) from error
    if name not in session.get_providers():
        raise did_not_load(provider, name, read_log())
    return Session(session, provider, name)


def options_in_force(provider: ProviderSpec, reported: Mapping[str, str]) -> dict[str, str]:
    """What a session reports of its provider; what was asked for where it doesn't report it, as OpenVINO's."""
    ignored = not_taken(provider, reported)
    return {**{name: value for name, value in provider.options.items() if name not in ignored}, **reported}


def not_taken(provider: ProviderSpec, reported: Mapping[str, str]) -> list[str]:
    """Options that our table doesn't have, and that the session doesn't report either.

    A session that reports nothing, as OpenVINO's, proves nothing, unless its provider has no options at all.
    """
    info = provider_info(provider.name)
    if provider.library or (not reported and info.options):
        return []
    return [name for name in info.unknown_options(provider.options) if name not in reported]


def as_actual(value: Any) -> Actual:
    """ZipMap's list of dicts as the matrix it is, with its keys; everything else as numpy has it."""
    plain, columns = plain_value(value)
    return Actual(value=plain, columns=columns)


def choose_provider(provider: ProviderSpec, options: Any) -> tuple[str, dict[str, Any]]:
    """The runtime's name of the provider, and how the session is told to use it."""
    if provider.library:
        devices = plugin_devices(provider)
        options.add_provider_for_devices(devices[:1], dict(provider.options))
        return devices[0].ep_name, {}
    info = PROVIDERS[provider.name]
    name = info.full_name
    if name not in ort.get_available_providers():
        raise not_built_in(provider, name)
    if info.needs_nvidia and hasattr(ort, "preload_dlls"):
        # Finds CUDA libraries that pip installed.
        ort.preload_dlls()
    return name, {"providers": [(name, dict(provider.options))]}


def _refused(error: Exception, provider: ProviderSpec, path: str, custom_ops: str | None) -> Exception:
    """The device's fault, or the model's."""
    told = lost(provider, str(error))
    return told or load_failed(error, path, f"{Path(path).name} on {provider.name}", custom_ops=custom_ops)
