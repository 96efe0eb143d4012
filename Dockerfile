# Four images of one file: `--build-arg VARIANT=cpu` (the default), `VARIANT=slim`, `VARIANT=gpu` or `VARIANT=tensorflow`.
ARG BASE_IMAGE=base
ARG VARIANT=cpu

# Written out, since Dependabot reads no ARG. Another base comes with `--build-arg BASE_IMAGE=…`.
FROM debian:12-slim AS base

# --- Python, and what is to be installed, the same in all.
FROM ${BASE_IMAGE} AS python

# ONNX Runtime's StringNormalizer asks for en_US.UTF-8 by name, and slim images hold no such locale.
# git: in a container job, actions/checkout makes no .git without it, and fetches nothing from Git LFS.
# Packages have no pinned versions: Debian drops superseded ones, and each update would break the build.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git git-lfs locales python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && localedef -i en_US -f UTF-8 en_US.UTF-8 \
    && python3 -m venv /opt/onnx-gate

ENV PATH=/opt/onnx-gate/bin:$PATH \
    LANG=en_US.UTF-8 \
    PYTHONUNBUFFERED=1 \
    # Root's __pycache__ folders in the workspace would break the next checkout on a self-hosted runner.
    PYTHONDONTWRITEBYTECODE=1

# The dependencies come before the code, so that a change of code doesn't install them anew.
COPY pyproject.toml constraints.txt /tmp/dependencies/

WORKDIR /tmp/dependencies
# Extras name each other as onnx-gate[…]; the package isn't here yet, so the names in `frameworks` are looked up.
# None of them brings onnxruntime: exactly one may be installed, and which one is for the variants to say.
RUN python -c 'import re, tomllib; \
project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
extras = project["optional-dependencies"]; \
wanted = re.search(r"\[(.+)\]", extras["frameworks"][0])[1].split(","); \
light = [name for name in wanted if name not in ("torch", "keras")]; \
listed = {name: project["dependencies"] + [line for extra in names for line in extras[extra]] \
    for name, names in (("requirements", wanted), ("slim", light))} | {name: extras[name] for name in ("cpu", "gpu", "tensorflow")}; \
[open(f"{name}.txt", "w").write("\n".join(line for line in lines if not line.startswith("onnx-gate["))) \
    for name, lines in listed.items()]'

# --- The frameworks. They run the sources, on the CPU.
FROM python AS frameworks

# Where torch's builds are looked for, beside pip's own index: this one has CPU builds, which are small.
# Empty for pip's own index alone, whose Linux builds bring gigabytes of CUDA libraries.
ARG TORCH_INDEX_URL=https://download.pytorch.org/whl/cpu

# Packages bring tests, and torch what C++ is built and tested with: together 250 MB that nothing imports.
# compileall uses every core where pip compiles on one; some internal modules need a newer Python.
RUN pip install --no-cache-dir --no-compile --no-deps --constraint constraints.txt torch \
        ${TORCH_INDEX_URL:+--extra-index-url "$TORCH_INDEX_URL"} \
    && pip install --no-cache-dir --no-compile --requirement requirements.txt --constraint constraints.txt \
    && find /opt/onnx-gate/lib -type d -name tests -prune -exec rm -rf {} + \
    && rm -rf /opt/onnx-gate/lib/python3*/site-packages/torch/include /opt/onnx-gate/lib/python3*/site-packages/torch/test \
    && python -m compileall -q -j 0 -x '/testing/_internal/' /opt/onnx-gate/lib

# --- scikit-learn and boosters alone, without PyTorch and what it needs: some 800 MB less.
FROM python AS slim
RUN pip install --no-cache-dir --no-compile --constraint constraints.txt --requirement slim.txt --requirement cpu.txt \
    && find /opt/onnx-gate/lib -type d -name tests -prune -exec rm -rf {} + \
    && python -m compileall -q -j 0 /opt/onnx-gate/lib

# --- ONNX Runtime for the CPU alone: a tenth of the size of the build that knows CUDA too.
FROM frameworks AS cpu
RUN pip install --no-cache-dir --constraint constraints.txt --requirement cpu.txt

# --- ONNX Runtime with CUDA, and the CUDA and cuDNN libraries that it loads (onnxruntime.preload_dlls finds them).
FROM frameworks AS gpu
RUN pip install --no-cache-dir --no-compile --constraint constraints.txt --requirement gpu.txt \
    && python -m compileall -q -j 0 -x '/tests/|/testing/_internal/' /opt/onnx-gate/lib
# A docker action can't ask for --gpus: a host whose default runtime is nvidia's looks at these instead.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility

# --- TensorFlow too, which is as large as all of the above.
FROM cpu AS tensorflow
RUN pip install --no-cache-dir --no-compile --constraint constraints.txt --requirement tensorflow.txt \
    && python -m compileall -q -j 0 -x '/tests/|/testing/_internal/' /opt/onnx-gate/lib

# --- The gate itself.
# hadolint ignore=DL3006
FROM ${VARIANT}
# The gate is root here, beside the runner's tokens and the Docker socket: models run as users of their own.
ENV ONNX_GATE_ISOLATION=uids
COPY . /tmp/onnx-gate
RUN pip install --no-cache-dir --no-deps /tmp/onnx-gate \
    && mv /tmp/onnx-gate/entrypoint.py /opt/onnx-gate/ \
    # In a job that runs in this image, the command is root's too: it imports nothing from where PYTHONPATH leads.
    && sed -i '1s/$/ -IB/' /opt/onnx-gate/bin/onnx-gate \
    && rm -rf /tmp/onnx-gate /tmp/dependencies

# The runner sets its own; this one serves `docker run -v "$PWD:/github/workspace"`.
WORKDIR /github/workspace

# No shell between the runner and Python: sh loses variables like INPUT_REQUIRE-CUDA. And -I: a workflow's PYTHONPATH
# may lead into the repository, whose files must not be imported by root.
ENTRYPOINT ["/opt/onnx-gate/bin/python", "-I", "-B", "-u", "/opt/onnx-gate/entrypoint.py"]
