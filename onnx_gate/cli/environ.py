"""Which environment variables the user's code and pip may see."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from onnx_gate.errors import UsageError
from onnx_gate.frameworks.registry import worker_variables
from onnx_gate.repository.secrets import is_secret_variable
from onnx_gate.vocabulary import Isolation

# What a worker may see: enough to find libraries, devices and caches, nothing that gives further access. So there is no
# XDG_RUNTIME_DIR, SSH_AUTH_SOCK, DOCKER_HOST or DBUS address here, and no proxy, whose address may hold a password.
_GENERAL = (
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|CI|VIRTUAL_ENV|CONDA_PREFIX|XDG_CACHE_HOME"
    r"|PYTHON(PATH|HASHSEED|UTF8|IOENCODING|DONTWRITEBYTECODE|PYCACHEPREFIX|WARNINGS|NOUSERSITE|FAULTHANDLER|MALLOC)"
    r"|LD_LIBRARY_PATH|LD_PRELOAD|DYLD_\w+|CUDA_\w+|NVIDIA_\w+|CUDNN_\w+|ROCM_\w+|HIP_\w+|HSA_\w+|ROCR_\w+"
    r"|MIGRAPHX_\w+|VK_\w+|ADSP_LIBRARY_PATH|ASCEND_\w+|XILINX_\w+|OMP_\w+|MKL_\w+"
    r"|OPENBLAS_\w+|KMP_\w+|ORT_\w+|HF_HOME|HF_HUB_CACHE|HF_HUB_OFFLINE|TRANSFORMERS_\w+|SSL_CERT_\w+"
    r"|COVERAGE_\w+"
)
_WORKER_VARIABLES = re.compile("|".join((_GENERAL, *worker_variables())))
_PIP_VARIABLES = re.compile(r"PIP_\w+|(https?|all|no)_proxy|(HTTPS?|ALL|NO)_PROXY|REQUESTS_CA_BUNDLE")
# ONNX Runtime's telemetry opens a database and starts threads as soon as it is imported. Neither is safe in a process
# that forks, and nobody else needs to know what is judged here.
_NO_TELEMETRY = dict.fromkeys(("ORT_DISABLE_TELEMETRY", "ORT_TELEMETRY_DISABLED"), "1")
# With one thread a fork is safe, and answers don't depend on the machine.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def worker_environ(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that the user's code may see."""
    known = {name: value for name, value in environ.items() if _WORKER_VARIABLES.fullmatch(name)}
    kept = {name: value for name, value in known.items() if not is_secret_variable(name, value)}
    return {**kept, **_ONE_THREAD, **_NO_TELEMETRY, "PYTHONUNBUFFERED": "1"}


def pip_environ(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables for installing the user's requirements: also pip's own settings and the proxy to its index."""
    kept = {name: value for name, value in environ.items() if _PIP_VARIABLES.fullmatch(name)}
    return {**worker_environ(environ), **kept}


def isolation(environ: Mapping[str, str] = os.environ) -> Isolation:
    """What separates models. The image asks for one user per model, which only root can set up."""
    asked = environ.get("ONNX_GATE_ISOLATION") or "none"
    if asked not in ("uids", "none"):
        raise UsageError(f"ONNX_GATE_ISOLATION: got {asked!r}, expected uids or none")
    return "uids" if asked == "uids" and sys.platform == "linux" and os.geteuid() == 0 else "none"


def available_cpus() -> int:
    """The CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
