#!/bin/sh
# Builds the image `onnx-gate-test` that the tests beside this file run; with the argument `gpu`, `onnx-gate-test-gpu`.
#
# Where a docker daemon answers, that is one `docker build`. Elsewhere nothing can be pulled, so Debian's own tools
# make a base image like debian:bookworm-slim and build on it. Package mirrors, indexes and certificates are those
# that this machine is configured with. Run it again after a change: what hasn't changed isn't built anew.
set -eu

repository=$(cd "$(dirname "$0")/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/onnx-gate-tests
rootfs=$cache/bookworm
variant=${1:-cpu}
image=onnx-gate-test$([ "$variant" = cpu ] || echo "-$variant")

if docker info >/dev/null 2>&1; then
    exec docker build --build-arg VARIANT="$variant" --tag "$image" "$repository"
fi

missing=
for tool in buildah podman runc debootstrap; do
    command -v $tool >/dev/null || missing="$missing $tool"
done
if [ -n "$missing" ]; then
    apt-get update -qq
    # shellcheck disable=SC2086  # a list of words
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing >/dev/null
fi

# --- The base: Debian without docs and translations, as in the slim image.
sources=$(apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' \
    'Origin: Debian' | grep ' bookworm' || true)
if ! [ -d "$rootfs" ]; then
    rm -rf "$rootfs.partial"
    mkdir -p "$cache"
    # No mirror found: debootstrap knows a default one.
    mirror=$(echo "$sources" | awk '$3 == "bookworm" {print $2; exit}')
    # shellcheck disable=SC2086  # left out when empty
    debootstrap --variant=minbase bookworm "$rootfs.partial" $mirror >"$cache/debootstrap.log"
    cd "$rootfs.partial"
    [ -z "$sources" ] || echo "$sources" >etc/apt/sources.list
    rm -rf var/cache/apt/* var/lib/apt/lists/*
    for folder in doc info locale man; do
        rm -rf usr/share/$folder/*
        echo "path-exclude /usr/share/$folder/*" >>etc/dpkg/dpkg.cfg.d/slim
    done
    mv "$rootfs.partial" "$rootfs"
fi

# --- This machine's pip settings. Environment variables are listed first and win, as they do for pip.
cd "$cache"
python3 -m pip config list | sed 's/\\n/ /g' | sed -nE \
    "s/^[^.]*\.(cert|proxy|no-index|index-url|extra-index-url|find-links|trusted-host)='(.*)'$/\1 = \2/p" |
    awk 'BEGIN {print "[global]"} !seen[$1]++' >pip.conf
# ca-certificates rewrites /etc/ssl/certs when it is installed: the bundle goes elsewhere.
bundle=$(sed -n 's/^cert = //p' pip.conf)
bundle=${bundle:-${REQUESTS_CA_BUNDLE:-${SSL_CERT_FILE:-}}}
rm -f "$rootfs/etc/pip-ca.crt"
if [ -n "$bundle" ]; then
    cp "$bundle" "$rootfs/etc/pip-ca.crt"
    sed -i -e '/^cert = /d' -e '$a cert = /etc/pip-ca.crt' pip.conf
fi
cp pip.conf "$rootfs/etc/pip.conf"

# Folders that pip reads from are mounted; an index on disk keeps its files beside it, so there it is the folder above.
mounts=
for place in $(sed -nE 's/^(index-url|extra-index-url|find-links) = //p' pip.conf); do
    case $place in
    file://*) folder=$(dirname "${place#file://}") ;;
    /*) folder=$place ;;
    *) continue ;;
    esac
    mounts="$mounts --volume $folder:$folder:ro"
done

# --- The image. A base of the same content keeps its name, so that the layers on it are found again.
base=onnx-gate-test-base:$(cat "$rootfs/etc/apt/sources.list" "$rootfs"/etc/pip* | cksum | cut -d ' ' -f 1)
podman image exists "$base" || tar --create --directory "$rootfs" . | podman import --quiet - "$base"
# shellcheck disable=SC2086  # a list of words
exec buildah bud --layers --force-rm --isolation chroot --network host $mounts \
    --build-arg BASE_IMAGE="localhost/$base" --build-arg TORCH_INDEX_URL= --build-arg VARIANT="$variant" \
    --tag "$image" "$repository"
