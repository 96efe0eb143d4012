#!/bin/sh
# Makes the environments that the tests beside this file run in, in .venv-providers/: one for each build of ONNX Runtime,
# which share all other packages. What hasn't changed isn't made anew.
set -eu
PATH=$PATH:/usr/sbin:/sbin

here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../../.." && pwd)
environments=$repository/.venv-providers
python=${PYTHON:-python3}
version=$($python -c 'import sys; print("{}.{}.{}".format(*sys.version_info))')
icd=/usr/lib/chromium/vk_swiftshader_icd.json

# --- SwiftShader, a Vulkan device that is all software, comes with Debian's chromium.
missing=
[ -e "$icd" ] || missing="$missing chromium"
ldconfig -p | grep -q libvulkan.so.1 || missing="$missing libvulkan1"
command -v gcc >/dev/null || missing="$missing gcc libc6-dev"
if [ -n "$missing" ]; then
    apt-get update -qq
    # shellcheck disable=SC2086  # a list of words
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing >/dev/null
fi

# stamp FILE...: what an environment is made of
stamp() {
    (echo "$version" && cat "$@") | cksum
}

# install FOLDER REQUIREMENTS: packages without those that they need
install() {
    "$python" -m pip install -qq --disable-pip-version-check --no-deps --target "$1" --requirement "$2"
}

base() {
    folder=$environments/base
    wanted=$(stamp "$here/base.txt")
    [ "$(cat "$folder/.made-of" 2>/dev/null)" = "$wanted" ] && return
    rm -rf "$folder"
    install "$folder" "$here/base.txt"
    "$python" -c "import sys; sys.path.insert(0, '$folder'); import numpy, onnx, pydantic, yaml, rich, junit_xml"
    echo "$wanted" >"$folder/.made-of"
}

# environment NAME
environment() {
    folder=$environments/$1
    wanted=$(stamp "$here/base.txt" "$here/$1.txt")
    [ "$(cat "$folder/.made-of" 2>/dev/null)" = "$wanted" ] && return
    rm -rf "$folder"
    "$python" -m venv --without-pip "$folder"
    packages=$(echo "$folder"/lib/python*/site-packages)
    printf '%s\n%s\n' "$repository" "$environments/base" >"$packages/onnx-gate.pth"
    install "$packages" "$here/$1.txt"
    "$folder/bin/python" -c 'import onnxruntime'
    echo "$wanted" >"$folder/.made-of"
}

# The same build without the CUDA libraries, which onnxruntime looks for beside itself.
bare() {
    folder=$environments/cuda-bare
    rm -rf "$folder"
    "$python" -m venv --without-pip "$folder"
    packages=$(echo "$folder"/lib/python*/site-packages)
    ln -s "$environments"/cuda/lib/python*/site-packages/onnx[r-]* "$packages"
}

mkdir -p "$environments"
base
# Beside each other: most of it is waiting for the network.
environment webgpu &
first=$!
environment openvino &
second=$!
environment cuda
wait $first
wait $second
bare
