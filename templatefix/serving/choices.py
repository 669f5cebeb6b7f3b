"""What the command line offers; imported by its help, so that nothing else is imported here."""

from __future__ import annotations

CONNECTORS = ("mooncake-store", "lmcache", "lmcache-mp", "offloading", "none")
#: ``consumer`` is the decode instance of a split into prefill and decode.
ROLES = ("both", "consumer")
EMITS = ("text", "json", "env", "yaml")
