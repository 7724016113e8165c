#!/usr/bin/env bash
# Installs what the tests need into .venv-test and runs every check: `bash tools/test.sh [pytest arguments]`.
# The pytest arguments replace the default ones: `bash tools/test.sh -m "not nvcc" tests/ptx`.
set -euo pipefail
cd "$(dirname "$0")/.."

stage() { printf '\n== %s (%s s)\n' "$1" "$SECONDS"; }

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: Python 3.11 or newer is needed" >&2; exit 1; }

# nvcc drives the machine's C++ compiler; nothing else of the tests needs one.
if ! command -v g++ >/dev/null; then
    stage "installing g++"
    as_root=""
    if [ "$(id -u)" != 0 ]; then as_root=sudo; fi
    $as_root apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends g++ >/dev/null
fi

stage "installing Cuttle and the test tools"
if [ ! -x .venv-test/bin/python ] || ! .venv-test/bin/python -c '' 2>/dev/null; then
    rm -rf .venv-test
    "$python" -m venv .venv-test
fi
.venv-test/bin/pip install --quiet --disable-pip-version-check -e '.[test]'
export PATH="$PWD/.venv-test/bin:$PATH"

# The newest toolkit, for a few programs: same package names as 13.0, so it gets a folder of its own.
newest=build/cuda-13.5
if [ ! -e "$newest/done" ]; then
    stage "installing the toolkit 13.5"
    rm -rf "$newest"
    .venv-test/bin/pip install --quiet --disable-pip-version-check --no-deps --target "$newest" \
        nvidia-cuda-nvcc==13.5.37 nvidia-nvvm==13.5.37 nvidia-cuda-crt==13.5.37 \
        nvidia-cuda-runtime==13.5.37 nvidia-cuda-cccl==13.3.5.0.6
    touch "$newest/done"
fi

stage "building the client library and the executor"
python -m cuttle.client.build

stage "generated files"
python tools/generate.py --check

stage "ruff"
ruff check .
ruff format --check .

stage "mypy"
mypy

stage "import rules"
lint-imports

stage "file sizes"
python tools/check_size.py

stage "tests"
if [ "$#" = 0 ]; then set -- -n 2 --dist worksteal; fi
pytest "$@"
