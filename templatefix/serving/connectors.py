"""KV connectors that write decoded blocks back, with all that each of them needs to do so.

Names and defaults are vLLM 0.32's and 0.33's (``docs/features`` of its sources: Mooncake Store,
KV offloading) and lmcache 0.5.6's. Each of these leaves decoded KV alone unless told otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from templatefix.serving.plan import Beside, File

DEFAULT_BYTES = 16 * 2**30
MOONCAKE_FILE, LMCACHE_FILE = "mooncake.json", "lmcache.yaml"
_GIB = 2**30
_MASTER_PORT, _BOOTSTRAP_PORT, _LMCACHE_PORT = 50051, 8998, 5555
_LMCACHE_CHUNK = 256


@dataclass(frozen=True)
class Storage:
    """What is asked of a connector (one of ``CONNECTORS``, in one of ``ROLES``).

    ``cpu_bytes`` is the host memory that it may take, ``store_tp_size`` the number of shards of a
    layout that instances of different tensor-parallel sizes share.
    """

    connector: str = "none"
    role: str = "both"
    cpu_bytes: int | None = None
    store_tp_size: int | None = None


@dataclass(frozen=True)
class Connection:
    """A connector's configuration and what belongs to it.

    ``prefiller`` is the configuration of the other side of a split into prefill and decode, with
    the variables that only that side needs.
    """

    config: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: tuple[File, ...] = ()
    beside: tuple[Beside, ...] = ()
    notes: tuple[str, ...] = ()
    prefiller: tuple[Mapping[str, Any], Mapping[str, str]] | None = None


def connection(asked: Storage) -> Connection | None:
    """The configuration of a connector; None for ``none``.

    Raises ``ValueError`` for what does not go together, in words for the command line.
    """
    if asked.connector != "mooncake-store":
        if asked.role != "both":
            raise ValueError(f"--role {asked.role} needs --connector mooncake-store")
        if asked.store_tp_size is not None:
            raise ValueError("--store-tp-size needs --connector mooncake-store")
    if asked.connector == "none":
        if asked.cpu_bytes is not None:
            raise ValueError("--cpu-bytes needs a --connector")
        return None
    make = {
        "mooncake-store": _mooncake,
        "lmcache": _lmcache,
        "lmcache-mp": _lmcache_mp,
        "offloading": _offloading,
    }[asked.connector]
    return make(asked)


def _mooncake(asked: Storage) -> Connection:
    extra: dict[str, Any] = {"save_decode_cache": True}
    common: dict[str, Any] = {}
    if asked.store_tp_size is not None:
        common["store_tp_size"] = asked.store_tp_size
    split = asked.role == "consumer"
    role = "kv_consumer" if split else "kv_both"
    store = _connector("MooncakeStoreConnector", role, {**extra, **common})
    notes = [
        f"{MOONCAKE_FILE}: {_size(asked)} of host memory for each GPU (--cpu-bytes); put the "
        'master\'s address into it, and "protocol": "rdma" where the network has it',
        "the store's keys are hashes of token ids: processes agree on them, unless "
        "--prefix-caching-hash-algo is xxhash, which needs one PYTHONHASHSEED for all",
    ]
    if asked.store_tp_size is not None:
        notes.append(_store_tp(asked.store_tp_size))
    master = Beside("the store's master, once", ("mooncake_master", f"-rpc_port={_MASTER_PORT}"))
    return Connection(
        _split("kv_consumer", store) if split else store,
        {"MOONCAKE_CONFIG_PATH": MOONCAKE_FILE},
        (File(MOONCAKE_FILE, "named by MOONCAKE_CONFIG_PATH", _mooncake_file(asked)),),
        (master,),
        tuple(notes),
        prefiller=(
            _split("kv_producer", _connector("MooncakeStoreConnector", "kv_both", common)),
            {"VLLM_MOONCAKE_BOOTSTRAP_PORT": str(_BOOTSTRAP_PORT)},
        )
        if split
        else None,
    )


def _mooncake_file(asked: Storage) -> str:
    settings = {
        "mode": "embedded",
        "metadata_server": "P2PHANDSHAKE",
        "master_server_address": f"127.0.0.1:{_MASTER_PORT}",
        "global_segment_size": asked.cpu_bytes or DEFAULT_BYTES,
        "local_buffer_size": "1GB",
        "protocol": "tcp",
        "device_name": "",
    }
    return json.dumps(settings, indent=2) + "\n"


def _split(role: str, store: Mapping[str, Any]) -> dict[str, Any]:
    """One side of a split into prefill and decode: blocks go from side to side and to the store."""
    direct = {"kv_connector": "MooncakeConnector", "kv_role": role}
    return _connector("MultiConnector", role, {"connectors": [direct, store]})


def _store_tp(size: int) -> str:
    return (
        f"store_tp_size {size} lets instances of different tensor-parallel sizes share entries, on "
        f"these conditions: {size} is a multiple of each instance's size, the model's KV heads are "
        f"a multiple of {size} (or there is one KV head), full attention only, the same pipeline-"
        "parallel size and KV layout everywhere, no context parallelism and no cross-layer blocks; "
        "an instance that misses one says so in its log and shares nothing with other sizes"
    )


def _offloading(asked: Storage) -> Connection:
    extra = {"cpu_bytes_to_use": asked.cpu_bytes or DEFAULT_BYTES, "offload_prompt_only": False}
    return Connection(
        _connector("OffloadingConnector", "kv_both", extra),
        notes=(
            f"{_size(asked)} of host memory for all GPUs of the instance together (--cpu-bytes)",
            "offload_prompt_only is true by default, because most templates do not print an answer "
            "as it was generated, so that its blocks would never be asked for again: with a "
            "prefix-preserving template they are. --kv-offloading-size keeps that default",
            "needs a GPU: CUDA, ROCm or XPU",
        ),
    )


def _lmcache(asked: Storage) -> Connection:
    gib = (asked.cpu_bytes or DEFAULT_BYTES) / _GIB
    text = (
        f"chunk_size: {_LMCACHE_CHUNK}\n"
        "local_cpu: true\n"
        f"max_local_cpu_size: {gib:g}\n"
        "save_decode_cache: true\n"
    )
    return Connection(
        _connector("LMCacheConnectorV1", "kv_both", {}),
        {"LMCACHE_CONFIG_FILE": LMCACHE_FILE, "PYTHONHASHSEED": "0"},
        (File(LMCACHE_FILE, "named by LMCACHE_CONFIG_FILE", text),),
        notes=(
            f"{LMCACHE_FILE}: {gib:g} GiB of host memory for each GPU (--cpu-bytes)",
            _CHUNKS,
            "PYTHONHASHSEED has to be the same in all processes that share a cache",
            "needs a GPU: on a CPU it starts and stores nothing",
        ),
    )


def _lmcache_mp(asked: Storage) -> Connection:
    gib = (asked.cpu_bytes or DEFAULT_BYTES) / _GIB
    extra = {
        "lmcache.mp.host": "tcp://127.0.0.1",
        "lmcache.mp.port": _LMCACHE_PORT,
        "lmcache.mp.save_decode_cache": True,
    }
    words = (
        *("python", "-m", "lmcache.v1.multiprocess.http_server"),
        *("--host", "127.0.0.1", "--port", str(_LMCACHE_PORT)),
        *("--chunk-size", str(_LMCACHE_CHUNK), "--l1-size-gb", f"{gib:g}"),
        *("--eviction-policy", "LRU", "--supported-transfer-mode", "auto"),
    )
    seed = {"PYTHONHASHSEED": "0"}
    return Connection(
        _connector("LMCacheMPConnector", "kv_both", extra),
        seed,
        beside=(Beside("LMCache's server, first", words, seed),),
        notes=(
            f"{gib:g} GiB of host memory in LMCache's server (--cpu-bytes)",
            _CHUNKS,
            "lmcache.mp.save_decode_cache is read by lmcache's own connector (0.5.6), which vLLM "
            "prefers; vLLM's built-in one has no such key and stores decoded chunks always",
            "PYTHONHASHSEED has to be the same in the server and in every vLLM process",
        ),
    )


_CHUNKS = (
    f"LMCache keeps whole chunks of {_LMCACHE_CHUNK} tokens: what is left of an answer after the "
    "last of them is not kept"
)


def _connector(name: str, role: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    named: dict[str, Any] = {"kv_connector": name, "kv_role": role}
    return {**named, "kv_connector_extra_config": dict(extra)} if extra else named


def _size(asked: Storage) -> str:
    return f"{(asked.cpu_bytes or DEFAULT_BYTES) / _GIB:g} GiB"
