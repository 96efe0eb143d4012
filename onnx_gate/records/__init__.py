"""Every frozen record that crosses a border between rooms, imported one by one."""

from __future__ import annotations
