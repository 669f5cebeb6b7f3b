"""Connectors come with what makes them write decoded KV back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from templatefix.serving.choices import CONNECTORS
from templatefix.serving.connectors import Connection, Storage, connection


def made(*args: Any, **asked: Any) -> Connection:
    found = connection(Storage(*args, **asked))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("connector", "expected"),
    [
        (
            "mooncake-store",
            {
                "kv_connector": "MooncakeStoreConnector",
                "kv_role": "kv_both",
                "kv_connector_extra_config": {"save_decode_cache": True},
            },
        ),
        (
            "offloading",
            {
                "kv_connector": "OffloadingConnector",
                "kv_role": "kv_both",
                "kv_connector_extra_config": {
                    "cpu_bytes_to_use": 5 * 2**30,
                    "offload_prompt_only": False,
                },
            },
        ),
        ("lmcache", {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}),
        (
            "lmcache-mp",
            {
                "kv_connector": "LMCacheMPConnector",
                "kv_role": "kv_both",
                "kv_connector_extra_config": {
                    "lmcache.mp.host": "tcp://127.0.0.1",
                    "lmcache.mp.port": 5555,
                    "lmcache.mp.save_decode_cache": True,
                },
            },
        ),
    ],
)
def test_decoded_blocks_are_written_back(connector: str, expected: dict[str, Any]) -> None:
    assert made(connector, cpu_bytes=5 * 2**30).config == expected


def test_each_connector_is_made_and_takes_the_memory_that_it_is_given() -> None:
    size = 3 * 2**30
    assert connection(Storage()) is None
    store = json.loads(made("mooncake-store", cpu_bytes=size).files[0].text)
    assert store["global_segment_size"] == size
    assert "max_local_cpu_size: 3\n" in made("lmcache", cpu_bytes=size).files[0].text
    words = made("lmcache-mp", cpu_bytes=size).beside[0].words
    assert words[words.index("--l1-size-gb") + 1] == "3"
    for connector in CONNECTORS[:-1]:
        assert any("3 GiB" in note for note in made(connector, cpu_bytes=size).notes)
        assert any("16 GiB" in note for note in made(connector).notes)


def test_lmcache_saves_decoded_chunks_by_its_file_and_hashes_alike_everywhere() -> None:
    found = made("lmcache")
    assert found.environment == {"LMCACHE_CONFIG_FILE": "lmcache.yaml", "PYTHONHASHSEED": "0"}
    assert "\nsave_decode_cache: true\n" in found.files[0].text
    several = made("lmcache-mp")
    assert several.environment == several.beside[0].environment == {"PYTHONHASHSEED": "0"}


def test_the_default_of_the_offloading_connector_is_explained() -> None:
    assert any(
        "offload_prompt_only is true by default, because" in n for n in made("offloading").notes
    )


def test_a_decode_instance_takes_blocks_from_prefill_and_writes_back_to_the_store() -> None:
    found = made("mooncake-store", role="consumer", store_tp_size=4)
    direct, store = found.config["kv_connector_extra_config"]["connectors"]
    assert (found.config["kv_connector"], found.config["kv_role"]) == (
        "MultiConnector",
        "kv_consumer",
    )
    assert direct == {"kv_connector": "MooncakeConnector", "kv_role": "kv_consumer"}
    assert store["kv_role"] == "kv_consumer"
    assert store["kv_connector_extra_config"] == {"save_decode_cache": True, "store_tp_size": 4}

    assert found.prefiller is not None
    config, variables = found.prefiller
    assert variables == {"VLLM_MOONCAKE_BOOTSTRAP_PORT": "8998"}
    assert config["kv_role"] == "kv_producer"
    direct, store = config["kv_connector_extra_config"]["connectors"]
    assert (direct["kv_role"], store["kv_role"]) == ("kv_producer", "kv_both")
    # Both sides name the same layout, or they share nothing.
    assert store["kv_connector_extra_config"] == {"store_tp_size": 4}


def test_a_common_layout_comes_with_its_conditions() -> None:
    (note,) = [n for n in made("mooncake-store", store_tp_size=8).notes if "store_tp_size 8" in n]
    for condition in (
        "multiple of each instance's size",
        "KV heads",
        "full attention only",
        "pipeline-parallel size and KV layout",
        "context parallelism",
    ):
        assert condition in note


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (Storage("lmcache", role="consumer"), "--role consumer needs"),
        (Storage("none", role="consumer"), "--role consumer needs"),
        (Storage("offloading", store_tp_size=2), "--store-tp-size needs"),
        (Storage("none", cpu_bytes=5), "--cpu-bytes needs"),
    ],
)
def test_what_does_not_go_together_is_refused(asked: Storage, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        connection(asked)
