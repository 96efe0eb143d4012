"""Why a provider can't be used here: the runtime's words and our own probes → one kind of reason, and what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass

import onnxruntime as ort

from onnx_gate.errors import CannotJudge, NotAvailable
from onnx_gate.providers import provider_info
from onnx_gate.records.asked import ProviderSpec
from onnx_gate.vocabulary import Absence, Cause
from onnx_gate.wording.installing import install
from onnx_gate.worker.runtime.devices import device_present
from onnx_gate.worker.runtime.nvidia import Driver, ask_driver, other_version
from onnx_gate.worker.runtime.options import without_places
from onnx_gate.worker.user_code import ANSI, shorten

_LOG_PREFIX = re.compile(r"^\S+ \S+ \[[A-Z]:onnxruntime:[^\]]*\]\s*")
_MISSING = re.compile(r"([\w.+-]+\.(?:so|dylib)[\w.]*|[\w.+-]+\.dll): cannot open shared object file")
_SIGNS: tuple[tuple[Absence, tuple[str, ...]], ...] = (
    (Absence.BAD_OPTION, ("rovider option", "EP option", "inference precision", "should be a number")),
    (Absence.OUT_OF_MEMORY, ("out of memory", "CUDNN_STATUS_ALLOC_FAILED", "Failed to allocate memory")),
    (Absence.DEVICE_TOO_OLD, ("no kernel image", "CUDA failure 209:", "unsupported GPU architecture", "ARCH_MISMATCH")),
    (
        Absence.VERSION_MISMATCH,
        ("driver version is insufficient", "CUDA failure 803:", "undefined symbol", "' not found (required"),
    ),
    (Absence.NO_DEVICE, ("no CUDA-capable device", "CUDA failure 100:", "No supported adapters", "WebGPU adapter")),
)
"""Signs in the runtime's words; the first kind that shows counts."""
_OF_THE_DEVICE = (Absence.LIBRARY_MISSING, Absence.OUT_OF_MEMORY, Absence.DEVICE_TOO_OLD, Absence.NO_DEVICE)
"""What can come up only when a model is loaded or run."""
_CANNOT_RUN = ("EP_FAIL", "fallback to CPU EP has been explicitly disabled")
_TELLING = ("cannot open shared object", "rror", "ailed", "ailure")


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Why not."""

    kind: Absence
    words: str
    fix: str
    device: str = ""
    """What shows that the machine has a device."""


def not_built_in(provider: ProviderSpec, name: str) -> NotAvailable:
    """This onnxruntime was built without the provider."""
    return _refused(
        Reason(
            kind=Absence.NOT_BUILT_IN,
            words=f"this build of onnxruntime ({ort.__version__}) has no {name}",
            fix=provider_info(provider.name).how_to_get,
            device=device_present(provider.name),
        ),
    )


def did_not_load(provider: ProviderSpec, name: str, told: str) -> NotAvailable:
    """The runtime fell back, or refused; `told` is what it said meanwhile."""
    return _refused(explain(provider.name, name, told))


def lost(provider: ProviderSpec, told: str) -> CannotJudge | None:
    """A provider that fails while it loads or runs a model; None where the words are about something else."""
    if any(sign in told for sign in _CANNOT_RUN):
        words = f"{provider.name} can't run this model: {shorten(without_places(told))}"
        return CannotJudge(Cause.PROVIDER, words, fix="change what it can't run, or remove it from `providers`")
    missing = _MISSING.search(told)
    kind = Absence.LIBRARY_MISSING if missing else _kind(told)
    if provider_info(provider.name).software or kind not in _OF_THE_DEVICE:
        return None
    words = f"{provider.name} failed on this model: {shorten(without_places(told))}"
    if kind is Absence.OUT_OF_MEMORY:
        return CannotJudge(Cause.OUT_OF_MEMORY, words, fix=_FIXES[kind])
    fix = _missing(missing[1], words)[2] if missing else _FIXES[kind]
    return NotAvailable(words, device_present=True, kind=kind, fix=fix)


def explain(provider: str, name: str, told: str) -> Reason:
    """The kind of the reason, in the runtime's words and those of the driver."""
    kind = _kind(told)
    words = _runtimes_words(told, kind)
    device = device_present(provider) or ("the CPU" if provider_info(provider).software else "")
    fix = _FIXES[kind]
    missing = _MISSING.search(told)
    if missing and kind is not Absence.BAD_OPTION:
        kind, words, fix = _missing(missing[1], words)
    if provider_info(provider).needs_nvidia and kind is not Absence.BAD_OPTION:
        driver = ask_driver(_wanted_cuda())
        device = device or ", ".join(driver.devices)
        kind, words, fix = _with_driver(kind, words, fix, driver, library=missing is not None)
    return Reason(kind=kind, words=f"{name} did not load: {words}", fix=fix, device=device)


def _kind(told: str) -> Absence:
    return next((kind for kind, signs in _SIGNS if any(sign in told for sign in signs)), Absence.UNKNOWN)


def _missing(library: str, words: str) -> tuple[Absence, str, str]:
    if library.startswith("libcuda.so"):
        return Absence.DRIVER_MISSING, words, _FIXES[Absence.DRIVER_MISSING]
    if other := other_version(library):
        words = f"it wants {library} and found {other}"
        return Absence.VERSION_MISMATCH, words, f"install the version that has {library}, {_CUDA_WHEELS}"
    fix = f"install the package that has {library}"
    return Absence.LIBRARY_MISSING, words, f"{fix}, {_CUDA_WHEELS}" if _is_cudas(library) else fix


def _is_cudas(library: str) -> bool:
    """Those that come with CUDA's own wheels; TensorRT's don't."""
    return library.startswith(("libcu", "libnvrtc", "libnvJitLink"))


def _with_driver(kind: Absence, words: str, fix: str, driver: Driver, *, library: bool) -> tuple[Absence, str, str]:
    """A library that is missing comes first; of what the device is, the driver knows best."""
    if library or kind in (Absence.LIBRARY_MISSING, Absence.DRIVER_MISSING, Absence.OUT_OF_MEMORY):
        return kind, f"{words}; {driver.words}" if driver.devices else words, fix
    if driver.kind is None:
        return kind, f"{words}; {driver.words}", fix
    return driver.kind, driver.words, _FIXES[driver.kind]


def _wanted_cuda() -> int | None:
    from onnxruntime.capi import build_and_package_info as built

    number = str(getattr(built, "cuda_version", "") or "").partition(".")[0]
    return int(number) if number.isdigit() else None


def _runtimes_words(told: str, kind: Absence) -> str:
    """The line that shows the kind, else one that sounds like a reason, without its source lines and our paths."""
    lines = [_LOG_PREFIX.sub("", line).strip() for line in ANSI.sub("", told).splitlines() if line.strip(" *\n")]
    showing = [line for line in lines if any(sign in line for sign in dict(_SIGNS).get(kind, ()))]
    telling = [line for line in lines if any(sign in line for sign in _TELLING)]
    words = (showing or telling or lines or ["the runtime gives no reason"])[0]
    words = words.partition("with error: ")[2] or words.removeprefix("EP Error ").rpartition(" was false. ")[2]
    return shorten(without_places(words))


def _refused(reason: Reason) -> NotAvailable:
    seen = f"; the machine has a device ({reason.device}) that can't be used" if reason.device else ""
    # A wrong option is wrong on every machine.
    present = bool(reason.device) or reason.kind is Absence.BAD_OPTION
    return NotAvailable(f"{reason.words}{seen}", device_present=present, kind=reason.kind, fix=reason.fix)


_CUDA_WHEELS = f"such as with {install('gpu')}"
_FIXES = {
    Absence.DRIVER_MISSING: "install NVIDIA's driver; in a container, run it with the GPU (--gpus all)",
    Absence.NO_DEVICE: "run on a machine with such a device; in a container, let it see the device",
    Absence.DEVICE_TOO_OLD: "use a newer device, or an onnxruntime built for an older CUDA",
    Absence.OUT_OF_MEMORY: "use smaller `batches`, a larger device, or free its memory",
    Absence.VERSION_MISMATCH: "bring the driver, CUDA and onnxruntime to versions that belong together",
    Absence.BAD_OPTION: "see the provider's options in the documentation of ONNX Runtime",
    Absence.UNKNOWN: "see the model's log",
}
