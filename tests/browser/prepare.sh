#!/bin/sh
# Installs the browser that the tests beside this file open pages in: Debian's Chromium, from the mirrors that this
# machine is configured with; and npm, with which `make` then fetches the mermaid that draws charts as GitHub does.
set -eu

# Colour signs such as ✅ are in no font of a bare Debian, and pictures of the page show them.
missing=
command -v chromium >/dev/null || missing="$missing chromium"
[ -e /usr/share/fonts/truetype/noto/NotoColorEmoji.ttf ] || missing="$missing fonts-noto-color-emoji"
command -v npm >/dev/null || missing="$missing npm"
[ -z "$missing" ] && exit 0
[ "$(id -u)" = 0 ] && as_root= || as_root=sudo
$as_root apt-get update -qq
# shellcheck disable=SC2086  # a list of words
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing >/dev/null
