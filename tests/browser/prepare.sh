#!/bin/sh
# Installs the browser that the tests beside this file open pages in: Debian's Chromium, from the mirrors that this
# machine is configured with.
set -eu

command -v chromium >/dev/null && exit 0
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium >/dev/null
