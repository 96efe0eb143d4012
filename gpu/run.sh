#!/usr/bin/env bash
# Runs the GPU image as the runner runs a docker action, but with --gpus: the workspace and the step's files are
# mounted, the Docker socket is not, and of the environment only what is listed here goes in.
set -euo pipefail

fail() {
    echo "::error title=onnx-gate::$1"
    exit "$2"
}

command -v docker >/dev/null || fail "This runner has no docker. Fix: use a runner with Docker and the NVIDIA Container Toolkit, or run the command itself in a container job with \`options: --gpus all\`." 3

arguments=(run --rm --gpus all --security-opt no-new-privileges
    --volume "$GITHUB_WORKSPACE:/github/workspace" --workdir /github/workspace
    --env GITHUB_WORKSPACE=/github/workspace)

# The files through which a step talks to its workflow, each at the place that the gate is told.
mounted() { # VARIABLE PLACE OPTIONS
    if [ -n "${!1:-}" ]; then
        arguments+=(--volume "${!1}:$2$3" --env "$1=$2")
    fi
}
mounted GITHUB_OUTPUT /github/file_commands/output ""
mounted GITHUB_STEP_SUMMARY /github/file_commands/summary ""
mounted GITHUB_EVENT_PATH /github/workflow/event.json ":ro"

allowed=(CI GITHUB_ACTIONS GITHUB_API_URL GITHUB_EVENT_NAME GITHUB_GRAPHQL_URL GITHUB_JOB GITHUB_REF GITHUB_REPOSITORY
    GITHUB_RUN_ATTEMPT GITHUB_RUN_ID GITHUB_SERVER_URL GITHUB_SHA GITHUB_WORKFLOW GITHUB_WORKFLOW_REF RUNNER_DEBUG
    HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy)
# A name without a value is taken from the environment: no value, and no token, is ever in a command line.
for name in "${allowed[@]}" $(compgen -e INPUT_); do
    [ -z "${!name:-}" ] || arguments+=(--env "$name")
done

code=0
docker "${arguments[@]}" "$IMAGE" || code=$?
# Docker's own failures, as opposed to those of the gate.
[ "$code" -lt 125 ] || [ "$code" -gt 127 ] || fail "docker could not run $IMAGE with --gpus all; its words are above. Fix: install a driver and the NVIDIA Container Toolkit on this runner, and see that the image can be pulled." "$code"
exit "$code"
