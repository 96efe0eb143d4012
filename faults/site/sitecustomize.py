"""Installs the hooks in the servers and workers of a run: every Python with this folder on its path imports it."""

import os
import sys

if "ORT_FAULT" in os.environ:
    from faults import hooks

    hooks.install_in_worker(sys.orig_argv)
