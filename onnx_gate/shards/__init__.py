"""One manifest on many machines: a plan of which shard judges which models, and one result of all shards."""

from __future__ import annotations
