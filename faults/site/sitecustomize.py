"""Imported by every Python that finds this folder on its path: the hooks of the servers and workers of a run."""

import os
import sys

if "ORT_FAULT" in os.environ:
    from faults import hooks

    hooks.install_in_worker(sys.orig_argv)
