#!/bin/sh
# Installs the browser that the tests beside this file open pages in: Debian's Chromium, from the mirrors that this
# machine is configured with.
set -eu

# Colour signs such as ✅ are in no font of a bare Debian, and pictures of the page show them.
missing=
command -v chromium >/dev/null || missing="$missing chromium"
[ -e /usr/share/fonts/truetype/noto/NotoColorEmoji.ttf ] || missing="$missing fonts-noto-color-emoji"
[ -z "$missing" ] && exit 0
apt-get update -qq
# shellcheck disable=SC2086  # a list of words
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing >/dev/null
