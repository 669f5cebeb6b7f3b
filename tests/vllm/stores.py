"""Stores behind an engine: where KV goes that the engine's own cache may lose.

Each yields the :class:`Setting` of an engine that uses it. ``write_back`` is whether the blocks
that an answer fills go there too (``save_decode_cache``), or only those of prompts.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.vllm.engine import BLOCK, Setting
from tests.vllm.namespace import Namespace
from tests.vllm.program import Program, running

START_SECONDS = 240
_RPC, _METRICS = 50151, 50152
_LMCACHE, _LMCACHE_HTTP = 5555, 8190


def has_mooncake(python: str) -> str | None:
    """Why there is no Mooncake Store for this Python, or None where there is one."""
    found = subprocess.run([python, "-c", "import mooncake.store"], capture_output=True, text=True)
    if found.returncode == 0:
        return None
    why = found.stderr.strip().splitlines()[-1:] or ["it does not load"]
    return f"no Mooncake Store (tools/vllm_venv.sh brings one): {why[0]}"


@contextmanager
def mooncake(python: str, home: Path, namespace: Namespace, write_back: bool) -> Iterator[Setting]:
    """A Mooncake Store that speaks TCP; its master is in the namespace, where engines belong too.

    Source of flags and keys: Mooncake 0.3.13 and vLLM 0.32,
    ``distributed/kv_transfer/kv_connector/v1/mooncake/store``.
    """
    configuration = home / "mooncake.json"
    configuration.write_text(
        json.dumps(
            {
                "metadata_server": "P2PHANDSHAKE",
                "master_server_address": f"127.0.0.1:{_RPC}",
                "protocol": "tcp",
                "device_name": "",
                "global_segment_size": "512MB",
                "local_buffer_size": "128MB",
            }
        )
    )
    master = [str(Path(python).parent / "mooncake_master"), "-rpc_address=127.0.0.1"]
    master += [f"-rpc_port={_RPC}", f"-metrics_port={_METRICS}", "-default_kv_lease_ttl=30000"]
    program = Program("mooncake_master", namespace.command(master), home)
    with running(program, lambda: _answers(namespace, _RPC), START_SECONDS):
        yield Setting(
            namespace.command,
            namespace.connect,
            flags=(_transfer("MooncakeStoreConnector", {"save_decode_cache": write_back}),),
            environment={
                "MOONCAKE_CONFIG_PATH": str(configuration),
                "MOONCAKE_REQUESTER_LOCAL_HOSTNAME": "127.0.0.1",
            },
        )


@contextmanager
def lmcache(
    python: str, packages: Path, home: Path, namespace: Namespace, write_back: bool
) -> Iterator[Setting]:
    """LMCache's multi-process server, which keeps KV in its own memory.

    ``packages`` is a directory with lmcache, beside what the Python has. Source of flags and keys:
    LMCache 0.5.6, ``v1/multiprocess`` and ``integration/vllm/lmcache_mp_connector.py``. Its default
    transfer mode refuses a CPU, and both sides have to hash alike.
    """
    environment = {"PYTHONPATH": str(packages), "PYTHONHASHSEED": "0"}
    command = [python, "-m", "lmcache.v1.multiprocess.http_server", "--host=127.0.0.1"]
    command += [f"--port={_LMCACHE}", f"--chunk-size={BLOCK}", "--l1-size-gb=0.5"]
    command += ["--eviction-policy=LRU", "--supported-transfer-mode=auto"]
    command += ["--disable-observability"]  # for which packages would have to be added
    command += ["--http-host=127.0.0.1", f"--http-port={_LMCACHE_HTTP}"]
    program = Program("lmcache", namespace.command(command), home, environment)
    extra = {
        "lmcache.mp.host": "tcp://127.0.0.1",
        "lmcache.mp.port": _LMCACHE,
        "lmcache.mp.save_decode_cache": write_back,
    }
    with running(program, lambda: _answers(namespace, _LMCACHE_HTTP), START_SECONDS):
        yield Setting(
            namespace.command,
            namespace.connect,
            flags=(_transfer("LMCacheMPConnector", extra),),
            environment={**environment, "PYTHONPATH": f"{home}:{packages}"},
        )


def _answers(namespace: Namespace, port: int) -> bool:
    try:
        namespace.connect(port).close()
    except OSError:
        return False
    return True


def _transfer(connector: str, extra: dict[str, object]) -> str:
    chosen = {
        "kv_connector": connector,
        "kv_role": "kv_both",
        "kv_connector_extra_config": extra,
    }
    return f"--kv-transfer-config={json.dumps(chosen)}"
