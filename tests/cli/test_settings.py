"""Arguments, action inputs and environment → Settings."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from onnx_gate.cli import settings
from onnx_gate.cli.environ import available_cpus, pip_environ, worker_environ
from onnx_gate.cli.main import build_parser
from onnx_gate.cli.settings import from_arguments, from_inputs
from onnx_gate.errors import UsageError
from onnx_gate.records.settings import CommentMode, Settings, Workflow, parse_shard


def from_command_line(*argv: str, environ: dict[str, str] | None = None) -> Settings:
    """As `onnx-gate run …` has them."""
    return from_arguments(build_parser().parse_args(["run", *argv]), environ or {})


def test_a_step_without_inputs_gets_the_defaults() -> None:
    """The names of the contract, all models, all providers, one job a CPU."""
    asked = from_inputs({})
    assert (asked.manifest, asked.output, asked.requirements) == (Path("onnx-gate.yml"), Path("onnx-gate-report"), None)
    assert (asked.options.only, asked.options.providers, asked.options.shard) == ((), (), None)
    assert asked.options.require_cuda is False
    assert asked.options.jobs == available_cpus() >= 1
    assert (asked.step_summary, asked.github_output, asked.in_actions, asked.live) == (None, None, False, False)


def test_a_command_without_arguments_gets_the_same() -> None:
    """The action is `run` with the inputs of the step."""
    assert from_command_line("--comment", "auto") == from_inputs({})


def test_all_inputs_arrive() -> None:
    """As the runner passes them: upper case, hyphens kept, white space around them."""
    asked = from_inputs(
        {
            "INPUT_MANIFEST": " ci/gate.yml ",
            "INPUT_OUTPUT": "out/report\n",
            "INPUT_ONLY": "a, b\nc",
            "INPUT_PROVIDERS": "cpu\ncuda",
            "INPUT_REQUIRE-CUDA": "true",
            "INPUT_JOBS": "3",
            "INPUT_ALLOW-PICKLE": "false",
            "INPUT_REQUIREMENTS": "models/requirements.txt",
            "INPUT_COMMENT": "always",
            "INPUT_TOKEN": " a-token\n",
        }
    )
    assert asked.options.allow_pickle is False
    assert (asked.manifest, asked.output) == (Path("ci/gate.yml"), Path("out/report"))
    assert (asked.options.only, asked.options.providers) == (("a", "b", "c"), ("cpu", "cuda"))
    assert (asked.options.require_cuda, asked.options.jobs) == (True, 3)
    assert asked.requirements == Path("models/requirements.txt")
    assert (asked.comment, asked.workflow.token) == (CommentMode.ALWAYS, "a-token")


def test_all_arguments_arrive() -> None:
    """Repeatable ones in their order."""
    asked = from_command_line(
        *("ci/gate.yml", "--output", "out", "--only", "b", "--only", "a", "--provider", "cuda", "--provider", "cpu"),
        *("--require-cuda", "--jobs", "2", "--shard", "2/5", "--comment", "auto"),
    )
    assert asked.comment is CommentMode.AUTO
    assert (asked.manifest, asked.output) == (Path("ci/gate.yml"), Path("out"))
    assert (asked.options.only, asked.options.providers) == (("b", "a"), ("cuda", "cpu"))
    assert (asked.options.require_cuda, asked.options.jobs, asked.options.shard) == (True, 2, (2, 5))


def test_a_shard_and_its_plan_arrive() -> None:
    """From a step of a matrix, and from a command line."""
    asked = from_inputs({"INPUT_SHARD": " 2/5 ", "INPUT_PLAN": "plan1:ab:5:1,2\n"})
    assert (asked.options.shard, asked.options.plan) == ((2, 5), "plan1:ab:5:1,2")
    assert from_command_line("--shard", "2/5", "--plan", "plan1:ab:5:1,2").options == asked.options


@pytest.mark.parametrize(
    "inputs", [{"INPUT_PLAN": "plan1:"}, {"INPUT_PLAN": "plan1:", "INPUT_SHARD": "1/2", "INPUT_ONLY": "a"}]
)
def test_a_plan_goes_with_a_shard_and_without_a_choice(inputs: dict[str, str]) -> None:
    """A choice on top of the plan's would leave models to nobody."""
    with pytest.raises(UsageError, match=r"^--plan: a plan holds which models each shard judges"):
        from_inputs(inputs)


@pytest.mark.parametrize("name", ["INPUT_REQUIRE-CUDA", "INPUT_REQUIRE_CUDA"])
def test_hyphens_and_underscores_name_the_same_input(name: str) -> None:
    """The runner keeps hyphens; `docker run --env` in a shell has to do without."""
    assert from_inputs({name: "true"}).options.require_cuda is True


def test_an_empty_input_is_one_that_was_left_out() -> None:
    """The runner passes every input of action.yml, empty where the step doesn't name it."""
    names = ["MANIFEST", "OUTPUT", "ONLY", "PROVIDERS", "REQUIRE-CUDA", "SHARD", "PLAN", "JOBS", "REQUIREMENTS"]
    names += ["ALLOW-PICKLE", "COMMENT", "TOKEN"]
    assert from_inputs({f"INPUT_{name}": "" for name in names}) == from_inputs({})
    assert from_inputs({f"INPUT_{name}": " \n" for name in names}) == from_inputs({})


@pytest.mark.parametrize(
    ("written", "value"),
    [("true", True), ("True", True), ("TRUE", True), ("false", False), ("False", False), ("FALSE", False)],
)
def test_booleans_are_those_of_yaml_1_2(written: str, value: bool) -> None:
    """As in GitHub's own `getBooleanInput`."""
    assert from_inputs({"INPUT_REQUIRE-CUDA": written}).options.require_cuda is value


@pytest.mark.parametrize("written", ["yes", "no", "1", "0", "on", "tRUE", "y", "null", "${{ x }}"])
def test_other_booleans_are_refused(written: str) -> None:
    """Guessing could turn a required GPU into an optional one."""
    with pytest.raises(UsageError) as caught:
        from_inputs({"INPUT_REQUIRE-CUDA": written})
    assert str(caught.value) == f"input 'require-cuda': got {written!r}, expected true or false"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "written", ["a,b,c", "a, b, c", "a\nb\nc", "a,\nb,\nc\n", " a b  c ", ",a,,b,\n,c,", "a\r\nb\r\nc\r\n", "a\tb\tc"]
)
def test_lists_are_separated_by_commas_or_new_lines(written: str) -> None:
    """As people write them in YAML, with or without a trailing one."""
    assert from_inputs({"INPUT_ONLY": written}).options.only == ("a", "b", "c")


def test_providers_are_known_and_counted_once() -> None:
    """From both sides, separated in all ways."""
    assert from_inputs({"INPUT_PROVIDERS": "cuda,cpu\ncuda"}).options.providers == ("cuda", "cpu")
    assert from_command_line("--provider", "cuda,cpu", "--provider", "cpu").options.providers == ("cuda", "cpu")


def test_a_provider_may_be_named_as_the_runtime_names_it() -> None:
    """It is one provider all the same."""
    assert from_inputs({"INPUT_PROVIDERS": "CUDAExecutionProvider, cuda"}).options.providers == ("cuda",)
    assert from_command_line("--provider", "WebGpuExecutionProvider").options.providers == ("webgpu",)


@pytest.mark.parametrize(("written", "jobs"), [("1", 1), ("16", 16), ("007", 7), (" 2 ", 2)])
def test_jobs_are_a_whole_number(written: str, jobs: int) -> None:
    """Of at least 1."""
    assert from_inputs({"INPUT_JOBS": written}).options.jobs == jobs


@pytest.mark.parametrize("written", ["0", "-1", "1.5", "many", "2 3", "²", "9" * 5000])
def test_other_jobs_are_refused(written: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By the action's inputs and by the command line, both with exit code 2."""
    with pytest.raises(UsageError, match=r"^input 'jobs': got .*, expected a whole number of at least 1"):
        from_inputs({"INPUT_JOBS": written})
    with pytest.raises(SystemExit) as caught:
        from_command_line(f"--jobs={written}")
    assert caught.value.code == 2
    assert "--jobs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written", "shard"), [("1/1", (1, 1)), ("2/5", (2, 5)), ("5/5", (5, 5)), ("10/100", (10, 100))]
)
def test_a_shard_is_one_of_n(written: str, shard: tuple[int, int]) -> None:
    """Counted from 1."""
    assert parse_shard(written) == shard


@pytest.mark.parametrize(
    "written",
    ["0/5", "6/5", "1/0", "0/0", "-1/5", "1", "1/", "/5", "a/b", "1/5/9", " 1/5", "1.0/5", "", "9" * 5000 + "/1"],
)
def test_other_shards_are_refused(written: str) -> None:
    """A part that doesn't exist must not be an empty one that passes."""
    with pytest.raises(UsageError) as caught:
        parse_shard(written)
    assert str(caught.value) == f"--shard: got {written!r}, expected I/N with I from 1 to N, such as 2/5"


def test_an_empty_shard_argument_is_refused_and_not_ignored() -> None:
    """`--shard "$SHARD"` with a variable that isn't set would run every model in every job of the matrix."""
    with pytest.raises(UsageError, match=r"^--shard: got ''"):
        from_command_line("--shard", "")


# ── Who is listening ────────────────────────────────────────────────────────────────────────────────────


def test_the_runners_files_are_found() -> None:
    """By the command line too: a step may `run: onnx-gate run`."""
    environ = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": "/runner/summary",
        "GITHUB_OUTPUT": "/runner/output",
        "CI": "true",
    }
    for asked in (from_inputs(environ), from_command_line(environ=environ)):
        assert asked.in_actions is True
        assert asked.live is False
        assert (asked.step_summary, asked.github_output) == (Path("/runner/summary"), Path("/runner/output"))


@pytest.mark.parametrize("value", ["", "false", "1"])
def test_elsewhere_there_are_no_annotations(value: str) -> None:
    """The runner says `true`."""
    assert from_inputs({"GITHUB_ACTIONS": value}).in_actions is False


@pytest.mark.parametrize("written", ["yes", "true", "Auto", "auto,always"])
def test_other_modes_of_commenting_are_refused(written: str) -> None:
    """With those that there are."""
    with pytest.raises(UsageError) as caught:
        from_inputs({"INPUT_COMMENT": written})
    assert str(caught.value) == f"input 'comment': got {written!r}, expected one of auto, always, never"


def test_a_command_comments_only_where_it_is_asked_to() -> None:
    """The action does on pull requests."""
    assert (from_command_line().comment, from_inputs({}).comment) == (CommentMode.NEVER, CommentMode.AUTO)


def test_the_workflow_is_known() -> None:
    """Where the interface is, what the event is, and the page of the run."""
    environ = {
        "GITHUB_API_URL": "https://ghes.example/api/v3",
        "GITHUB_SERVER_URL": "https://ghes.example",
        "GITHUB_REPOSITORY": "acme/models",
        "GITHUB_RUN_ID": "77",
        "GITHUB_EVENT_PATH": "/github/workflow/event.json",
        "GITHUB_WORKSPACE": "/github/workspace",
        "GITHUB_TOKEN": SECRET,
        "RUNNER_DEBUG": "1",
    }
    known = from_command_line(environ=environ).workflow
    assert known.api_url == "https://ghes.example/api/v3"
    assert known.run_url == "https://ghes.example/acme/models/actions/runs/77"
    assert (known.event_path, known.workspace) == (Path("/github/workflow/event.json"), Path("/github/workspace"))
    assert (known.token, known.debug) == (SECRET, True)
    assert from_inputs({**environ, "INPUT_TOKEN": "another"}).workflow.token == "another"


def test_without_a_workflow_nothing_is_known() -> None:
    """No host is a default: GitHub Enterprise Server has its own."""
    assert settings.workflow({}) == Workflow()


# ── What workers see ────────────────────────────────────────────────────────────────────────────────────

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_TOKEN",
        "GH_TOKEN",
        "ACTIONS_RUNTIME_TOKEN",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
        "ACTIONS_ID_TOKEN_REQUEST_URL",
        "ACTIONS_CACHE_URL",
        "ACTIONS_RESULTS_URL",
        "INPUT_TOKEN",
        "INPUT_REQUIRE-CUDA",
        "INPUT_MANIFEST",
        "GITHUB_ENV",
        "GITHUB_PATH",
        "GITHUB_OUTPUT",
        "GITHUB_STATE",
        "GITHUB_STEP_SUMMARY",
        "GITHUB_WORKSPACE",
        "RUNNER_TEMP",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AZURE_CREDENTIALS",
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "PIP_INDEX_URL",
        "NPM_TOKEN",
        "SSH_AUTH_SOCK",
        "PYTHON_API_KEY",
        "XDG_SECRET",
        "CUDA_PASSWORD",
        "TRANSFORMERS_TOKEN",
        "TORCH_PASS",
        "TORCH_PWD",
        "ORT_AUTH",
        "ORT_KEY",
        "TORCH_HUB_PAT",
        "CUDA_CREDENTIALS",
        "DATABASE_URL",
        "MY_OWN",
    ],
)
def test_what_opens_a_door_is_kept_from_workers(name: str) -> None:
    """Tokens, the runner's files and inputs, credentials, and whatever nobody thought of."""
    environ = worker_environ({name: SECRET, "PATH": "/bin"})
    assert name not in environ
    assert SECRET not in environ.values()
    assert environ["PATH"] == "/bin"


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "TMPDIR",
        "CI",
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "PYTHONHASHSEED",
        "LD_LIBRARY_PATH",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_HOME",
        "NVIDIA_VISIBLE_DEVICES",
        "OMP_PROC_BIND",
        "TORCH_HOME",
        "TORCHINDUCTOR_CACHE_DIR",
        "HF_HOME",
        "HF_HUB_OFFLINE",
        "SSL_CERT_FILE",
        "XDG_CACHE_HOME",
    ],
)
def test_what_finds_libraries_and_devices_is_kept(name: str) -> None:
    """With its value."""
    assert worker_environ({name: "as it was"})[name] == "as it was"


@pytest.mark.parametrize(
    "name",
    [
        *("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK", "DOCKER_HOST", "DOCKER_CONFIG", "HTTPS_PROXY"),
        *("DBUS_SESSION_BUS_ADDRESS", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONHOME", "PYTHONUSERBASE", "KRB5CCNAME"),
    ],
)
def test_addresses_of_others_are_kept_from_workers(name: str) -> None:
    """Sockets, proxies with passwords in them, and files that Python would run."""
    assert name not in worker_environ({name: "somewhere"})


@pytest.mark.parametrize(
    ("argv", "allowed"), [((), None), (("--allow-pickle",), True), (("--no-allow-pickle",), False)]
)
def test_pickles_are_allowed_refused_or_left_to_what_lies_beside_them(
    argv: tuple[str, ...], allowed: bool | None
) -> None:
    """An explicit yes is more than none."""
    assert from_command_line(*argv).options.allow_pickle is allowed
    given = {} if allowed is None else {"INPUT_ALLOW-PICKLE": str(allowed).lower()}
    assert from_inputs(given).options.allow_pickle is allowed


@pytest.mark.skipif(sys.platform != "linux", reason="users are changed on Linux only")
def test_only_root_can_have_models_run_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The image asks for it; elsewhere, and without root, what is not there is not claimed."""
    asked = {"ONNX_GATE_ISOLATION": "uids"}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert from_inputs(asked).options.isolation == "uids"
    assert from_inputs({}).options.isolation == "none"
    monkeypatch.setattr(os, "geteuid", lambda: 1001)
    assert from_inputs(asked).options.isolation == "none"
    with pytest.raises(UsageError, match="ONNX_GATE_ISOLATION: got 'yes', expected uids or none"):
        from_inputs({"ONNX_GATE_ISOLATION": "yes"})


@pytest.mark.parametrize(
    "value",
    [
        *("https://me:pass@host.example/", "Bearer abcdefgh", "ghp_" + "a1B2" * 9, "-----BEGIN PRIVATE KEY-----"),
        "https://host.example/?token=abcdefgh",
        *("https://me:a/b@host.example", "https://tok1234@host.example", "me:pass@host.example"),
        "postgres://me:$PASSW0RD@host.example",
    ],
)
@pytest.mark.parametrize("name", ["TORCH_HOME", "HF_HOME", "CUDA_CACHE_PATH", "PYTHONPATH", "LANG", "ORT_ANYTHING"])
def test_a_secret_is_kept_from_workers_whatever_its_name(name: str, value: str) -> None:
    """Values are judged too, also those that pip's own process gets without need."""
    assert name not in worker_environ({name: value})
    assert name not in pip_environ({name: value})
    assert pip_environ({"PIP_INDEX_URL": value})["PIP_INDEX_URL"] == value


def test_the_workspace_is_known() -> None:
    """It is where credentials are looked for."""
    environ = {"GITHUB_WORKSPACE": "/github/workspace"}
    assert from_inputs(environ).options.workspace == Path("/github/workspace")
    assert from_command_line(environ=environ).options.workspace == Path("/github/workspace")
    assert from_inputs({}).options.workspace is None


def test_files_that_log_in_somewhere_are_private() -> None:
    """Those that variables name, and tokens in a cache that models may read."""
    given = {"KUBECONFIG": "/a/kube:/b/kube", "NETRC": "/c/netrc", "HF_HOME": "/cache/hf", "XDG_CACHE_HOME": "/cache"}
    assert set(from_inputs(given).options.private) == {
        *("/a/kube", "/b/kube", "/c/netrc", "/cache/hf/token", "/cache/hf/stored_tokens"),
        *("/cache/huggingface/token", "/cache/huggingface/stored_tokens"),
    }


def test_folders_of_the_runner_are_private() -> None:
    """Those of the files that a step talks through, the home, and the temporary one with the checkout's credentials."""
    asked = from_inputs(
        {
            "GITHUB_EVENT_PATH": "/github/workflow/event.json",
            "GITHUB_OUTPUT": "/github/file_commands/out",
            "HOME": "/github/home",
            "RUNNER_TEMP": "/github/runner_temp",
        }
    )
    assert {Path(folder).name for folder in asked.options.private} == {
        *("workflow", "file_commands", "home", "runner_temp", "event.json", "out")
    }


def test_workers_send_no_telemetry() -> None:
    """ONNX Runtime's, whatever the environment says."""
    assert worker_environ({"ORT_DISABLE_TELEMETRY": "0"})["ORT_DISABLE_TELEMETRY"] == "1"


def test_workers_compute_with_one_thread() -> None:
    """Whatever the user's shell says: a fork is safe then, and answers don't depend on the machine."""
    environ = worker_environ({"OMP_NUM_THREADS": "64", "MKL_NUM_THREADS": "64"})
    assert {environ[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "OPENBLAS")} == {"1"}
    assert environ["PYTHONUNBUFFERED"] == "1"


def test_both_ways_in_scrub_the_environment() -> None:
    """The settings carry the workers' environment, and it is the scrubbed one."""
    environ = {"PATH": "/bin", "GITHUB_TOKEN": SECRET, "INPUT_TOKEN": SECRET}
    for asked in (from_inputs(environ), from_command_line(environ=environ)):
        assert asked.options.environ == worker_environ(environ)
        assert SECRET not in repr(asked)
