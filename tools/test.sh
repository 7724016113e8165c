#!/usr/bin/env bash
# Installs what the tests need into .venv-test and runs every check: `bash tools/test.sh [pytest arguments]`.
# Arguments replace those that pytest gets otherwise: `bash tools/test.sh -m "not nvcc" tests/ptx_front`.
set -euo pipefail
cd "$(dirname "$0")/.."

stage() { printf '\n== %s (%s s)\n' "$1" "$SECONDS"; }

# A failed check must not hide what the tests have to say: all run, and the exit code remembers.
failed=""
check() {
    stage "$*"
    "$@" || failed="$failed '$*'"
}

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "error: Python 3.11 or newer is needed; PYTHON=/path/to/python3 bash tools/test.sh chooses one" >&2
    exit 1
}

# nvcc drives the machine's C++ compiler; nothing else of the tests needs one.
if ! command -v g++ >/dev/null; then
    stage "installing g++"
    as_root=""
    if [ "$(id -u)" != 0 ]; then as_root=sudo; fi
    $as_root apt-get update -qq
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends g++ >/dev/null
fi

# Windows and 32-bit programs run where these are; without them their tests are skipped, and say so.
if [ "$(uname -m)" = x86_64 ] && command -v apt-get >/dev/null && ! { command -v wine && [ -e /lib/ld-linux.so.2 ]; } >/dev/null; then
    stage "installing Wine and the loader of 32-bit programs"
    as_root=""
    if [ "$(id -u)" != 0 ]; then as_root=sudo; fi
    { $as_root apt-get update -qq && $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends wine wine64 libc6-i386 >/dev/null; } \
        || echo "note: not installed; tests of Windows and 32-bit programs are skipped"
fi

stage "installing Cuttle and the test tools"
if ! .venv-test/bin/python -c '' 2>/dev/null; then
    rm -rf .venv-test
    "$python" -m venv .venv-test
fi
export PATH="$PWD/.venv-test/bin:$PATH" PIP_DISABLE_PIP_VERSION_CHECK=1
# The build tools come first and Cuttle is built with them: isolated, it would fetch the C compiler a second time.
pip install --quiet 'hatchling>=1.27' editables 'ziglang>=0.15'
pip install --quiet --no-build-isolation -e '.[test]'

# The newest toolkit, for a few programs: same package names as 13.0, so it gets a folder of its own.
newest=build/cuda-13.5
if [ ! -e "$newest/done" ]; then
    stage "installing the toolkit 13.5"
    rm -rf "$newest"
    pip install --quiet --no-deps --target "$newest" \
        nvidia-cuda-nvcc==13.5.37 nvidia-nvvm==13.5.37 nvidia-cuda-crt==13.5.37 \
        nvidia-cuda-runtime==13.5.37 nvidia-cuda-cccl==13.3.5.0.6
    touch "$newest/done"
fi

# Two older runtimes, for a few programs: headers and libraries alone (4 MB).
older() {
    local folder=build/cudart-$1
    if [ -e "$folder/done" ]; then return; fi
    stage "installing the runtime $1"
    rm -rf "$folder"
    pip install --quiet --no-deps --target "$folder" "$2"
    touch "$folder/done"
}
older 12.9 nvidia-cuda-runtime-cu12==12.9.79
older 11.8 nvidia-cuda-runtime-cu11==11.8.89

# The oldest versions that pyproject.toml promises of the packages that are Python alone, for the tests of the command line.
oldest=build/oldest-packages
if [ ! -e "$oldest/done" ]; then
    stage "installing the oldest packages"
    rm -rf "$oldest"
    pip install --quiet --no-deps --target "$oldest" click==8.1.0 platformdirs==4.2.0 pyelftools==0.31 rich==13.7.0
    touch "$oldest/done"
fi

check python -m cuttle.client.build
check python tools/generate.py --check
check ruff check .
check ruff format --check .
check mypy
check lint-imports
check python tools/check_size.py
check python tools/check_links.py

if [ -n "$failed" ]; then printf '\nfailed before the tests:%s\n' "$failed" >&2; fi
stage "tests"
if [ "$#" = 0 ]; then set -- -n 2 --dist worksteal; fi
pytest "$@" || failed="$failed pytest"
[ -z "$failed" ]
