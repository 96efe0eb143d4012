"""Arguments, action inputs and environment → Settings. Nothing else reads the environment."""

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx_gate.cli.environ import available_cpus, isolation, worker_environ
from onnx_gate.errors import UsageError
from onnx_gate.providers import short_name
from onnx_gate.records.asked import RunOptions
from onnx_gate.records.settings import (
    DEFAULT_CACHE_SIZE,
    CommentMode,
    Settings,
    Workflow,
    parse_shard,
    parse_size,
)

# Files through which a step talks to its workflow; models must see neither these files nor their folders.
_STEP_FILES = ("EVENT_PATH", "OUTPUT", "STEP_SUMMARY", "ENV", "PATH", "STATE")
_PRIVATE_PLACES = (
    *("HOME", "RUNNER_TEMP", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "GNUPGHOME", "DOCKER_CONFIG", "GH_CONFIG_DIR"),
    *("NETRC", "PIP_CONFIG_FILE", "NPM_CONFIG_USERCONFIG", "GIT_CONFIG_GLOBAL", "KUBECONFIG", "HF_TOKEN_PATH"),
    *("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_CONFIG_DIR"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_GHA_CREDS_PATH", "CLOUDSDK_CONFIG", "AZURE_FEDERATED_TOKEN_FILE"),
)
# Caches that models may read, but that hold tokens beside the downloaded files.
_CACHES = {"HF_HOME": "", "XDG_CACHE_HOME": "huggingface"}
_TOKENS_IN_CACHE = ("token", "stored_tokens")
_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE", "")


def from_plan(arguments: Namespace, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of `plan`: which models, and where the step's outputs go."""
    return Settings(
        manifest=Path(arguments.manifest),
        output=Path(),
        options=RunOptions(jobs=1, only=_ids(arguments.only), providers=_providers(arguments.provider), environ={}),
        **_listeners(environ),
    )


def from_merge(arguments: Namespace, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of `merge`: which providers must have run, and where the reports and the step's outputs go."""
    return Settings(
        manifest=Path(arguments.manifest or "onnx-gate.yml"),
        output=Path(arguments.output),
        options=RunOptions(jobs=1, providers=_providers(arguments.provider), environ={}),
        comment=CommentMode(arguments.comment),
        baseline=arguments.baseline,
        **_listeners(environ),
    )


def from_arguments(arguments: Namespace, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of `run`, from the command line."""
    return Settings(
        manifest=Path(arguments.manifest),
        output=Path(arguments.output),
        options=RunOptions(
            jobs=arguments.jobs or available_cpus(),
            only=_ids(arguments.only),
            providers=_providers(arguments.provider),
            require_cuda=arguments.require_cuda,
            shard=parse_shard(arguments.shard) if arguments.shard is not None else None,
            plan=_plan(arguments.plan, arguments.shard, arguments.only),
            allow_pickle=arguments.allow_pickle,
            save_reference=Path(arguments.save_reference) if arguments.save_reference else None,
            reference=Path(arguments.reference) if arguments.reference else None,
            **_cache(arguments.cache, arguments.cache_size, "--cache-size", environ),
            explain_cache=arguments.explain_cache,
            **_surroundings(environ),
        ),
        comment=CommentMode(arguments.comment),
        baseline=arguments.baseline,
        resume=_resume(arguments),
        **_listeners(environ),
    )


def _resume(arguments: Namespace) -> bool:
    """Whether to resume a run; a reference is made, and used, only by a run of all models."""
    if arguments.resume and (arguments.save_reference or arguments.reference):
        raise UsageError("--resume goes with neither --save-reference nor --reference. Fix: leave --resume out")
    return bool(arguments.resume)


def from_calibrate(arguments: Namespace, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of `calibrate`: which models, on which providers, and where their logs go."""
    return Settings(
        manifest=Path(arguments.manifest),
        output=Path(arguments.output),
        options=RunOptions(
            jobs=arguments.jobs or available_cpus(),
            only=_ids(arguments.only),
            providers=_providers(arguments.provider),
            allow_pickle=arguments.allow_pickle,
            calibrates=True,
            **_surroundings(environ),
        ),
        **_listeners(environ),
    )


def from_inputs(environ: Mapping[str, str] = os.environ) -> Settings:
    """The action's settings; the runner passes inputs as variables whose names keep their hyphens."""
    jobs = _input("jobs", environ)
    if jobs and not re.fullmatch(r"0*[1-9][0-9]{0,8}", jobs):
        raise UsageError(f"input 'jobs': got {jobs!r}, expected a whole number of at least 1. Fix: leave it out")
    requirements = _input("requirements", environ)
    only, shard = _list(_input("only", environ)), _input("shard", environ)
    return Settings(
        manifest=Path(_input("manifest", environ) or "onnx-gate.yml"),
        output=Path(_input("output", environ) or "onnx-gate-report"),
        options=RunOptions(
            jobs=int(jobs) if jobs else available_cpus(),
            only=only,
            providers=_providers(_list(_input("providers", environ))),
            require_cuda=_boolean("require-cuda", environ),
            shard=parse_shard(shard) if shard else None,
            plan=_plan(_input("plan", environ) or None, shard or None, only),
            allow_pickle=_boolean("allow-pickle", environ) if _input("allow-pickle", environ) else None,
            **_cache(_input("cache", environ), _input("cache-size", environ), "input 'cache-size'", environ),
            # In a log, this is only one more line for each model.
            explain_cache=bool(_input("cache", environ)),
            **_surroundings(environ),
        ),
        requirements=Path(requirements) if requirements else None,
        comment=_comment_mode(environ),
        baseline=_input("baseline", environ),
        **_listeners(environ, token=_input("token", environ)),
    )


def to_tell_failure(arguments: Namespace | None, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings to report wrong inputs or arguments with: those that don't depend on them, else the defaults."""
    given = _input("comment", environ) if arguments is None else arguments.comment
    manifest = _input("manifest", environ) or "onnx-gate.yml" if arguments is None else arguments.manifest
    return Settings(
        manifest=Path(manifest),
        output=Path(),
        options=RunOptions(jobs=1),
        comment=CommentMode(given) if given in tuple(CommentMode) else CommentMode.AUTO,
        **_listeners(environ, token="" if arguments else _input("token", environ)),
    )


def _plan(text: str | None, shard: str | None, only: Sequence[str]) -> str:
    """The text of a plan. The plan chooses the models: a second choice could lose a model between two shards."""
    if text is None:
        return ""
    if shard is None or only:
        raise UsageError(
            "--plan: a plan holds which models each shard judges, so it goes with --shard and without --only. "
            "Fix: give --shard I/N from the plan's matrix, and --only to `onnx-gate plan`"
        )
    if not text.strip():
        raise UsageError("--plan: got nothing, expected the text of a plan. Fix: is the output's name right?")
    return text.strip()


def _cache(folder: str | None, size: str | None, where: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """The settings of the cache: its folder and size, and the commit of the models."""
    return {
        "cache": Path(folder) if folder else None,
        "cache_size": parse_size(size or DEFAULT_CACHE_SIZE, where),
        "commit": environ.get("GITHUB_SHA", ""),
    }


def _surroundings(environ: Mapping[str, str]) -> dict[str, Any]:
    """What models may see, and what is hidden from them."""
    workspace = environ.get("GITHUB_WORKSPACE")
    return {
        "environ": worker_environ(environ),
        "isolation": isolation(environ),
        "private": tuple(_private(environ)),
        "workspace": Path(workspace) if workspace else None,
    }


def _private(environ: Mapping[str, str]) -> Iterator[str]:
    """Paths that belong to the workflow, to the runner, or to a tool that logs in somewhere."""
    for file in filter(None, (environ.get(f"GITHUB_{name}") for name in _STEP_FILES)):
        yield from (file, str(Path(file).parent))
    for name in _PRIVATE_PLACES:
        yield from filter(None, environ.get(name, "").split(os.pathsep))
    for name, folder in _CACHES.items():
        if environ.get(name):
            yield from (str(Path(environ[name], folder, token)) for token in _TOKENS_IN_CACHE)


def workflow(environ: Mapping[str, str] = os.environ, *, token: str = "") -> Workflow:
    """What the runner says. The token of a command comes from the environment, the token of the action is an input."""
    server, repository, run = (environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    event, workspace = environ.get("GITHUB_EVENT_PATH"), environ.get("GITHUB_WORKSPACE")
    return Workflow(
        in_actions=environ.get("GITHUB_ACTIONS") == "true",
        debug=environ.get("RUNNER_DEBUG") == "1",
        workspace=Path(workspace) if workspace else None,
        run_id=run,
        workflow_ref=environ.get("GITHUB_WORKFLOW_REF", ""),
        api_url=environ.get("GITHUB_API_URL", ""),
        graphql_url=environ.get("GITHUB_GRAPHQL_URL", ""),
        repository=repository,
        event_path=Path(event) if event else None,
        ref=environ.get("GITHUB_REF", ""),
        commit=environ.get("GITHUB_SHA", ""),
        run_url=f"{server}/{repository}/actions/runs/{run}" if server and repository and run else "",
        token=(token or environ.get("GITHUB_TOKEN", "")).strip(),
    )


def _listeners(environ: Mapping[str, str], *, token: str = "") -> dict[str, Any]:
    known = workflow(environ, token=token)
    summary, output = environ.get("GITHUB_STEP_SUMMARY"), environ.get("GITHUB_OUTPUT")
    return {
        "step_summary": Path(summary) if summary else None,
        "github_output": Path(output) if output else None,
        "workflow": known,
        "live": sys.stdout.isatty() and not known.in_actions and "CI" not in environ,
    }


def _comment_mode(environ: Mapping[str, str]) -> CommentMode:
    value = _input("comment", environ) or CommentMode.AUTO
    if value not in tuple(CommentMode):
        raise UsageError(f"input 'comment': got {value!r}, expected one of {', '.join(CommentMode)}")
    return CommentMode(value)


def _input(name: str, environ: Mapping[str, str]) -> str:
    upper = name.upper()
    return (environ.get(f"INPUT_{upper}") or environ.get(f"INPUT_{upper.replace('-', '_')}") or "").strip()


def _boolean(name: str, environ: Mapping[str, str]) -> bool:
    value = _input(name, environ)
    if value not in (*_TRUE, *_FALSE):
        raise UsageError(f"input '{name}': got {value!r}, expected true or false")
    return value in _TRUE


def _list(text: str) -> tuple[str, ...]:
    return tuple(part for part in re.split(r"[,\s]+", text) if part)


def _ids(given: Sequence[str]) -> tuple[str, ...]:
    return tuple(part for each in given for part in _list(each) or (each,))


def _providers(names: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """The providers under their names in the reports; the manifest has to know a name that is not in the table."""
    parts = [part for name in names for part in _list(name)]
    return tuple(dict.fromkeys(short_name(part) for part in parts))
