"""The Python packages that tools/python_clients.py runs: where their tests are, which of them, and why some fail."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Reason:
    """Why tests fail: `pattern` is looked for in test name, message and text of a failure."""

    pattern: str
    text: str


@dataclass(frozen=True)
class Client:
    """A package and its own tests.

    `packages` go into a virtual environment of its own, those of `bare` without what they depend on. `repository` and `tag`:
    where the tests are if the package does not contain them. `command`: after the interpreter; `{tests}` is the checkout,
    `{site}` the environment's site-packages, `{xml}` the JUnit file to write. `folder`: working directory, same fields.
    """

    name: str
    package: str
    packages: tuple[str, ...]
    command: tuple[str, ...]
    selection: str
    folder: str = "{site}"
    bare: tuple[str, ...] = ()
    repository: str = ""
    tag: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()


PYTEST = ("-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=short", "--junitxml={xml}")

OPTIX = Reason("Could not initialize OptiX", "needs OptiX, a library of NVIDIA's driver")
IPC = Reason("cuIpc\\w+", "memory shared between processes (`cuIpc...`) is not implemented")

CLIENTS: tuple[Client, ...] = (
    Client(
        name="drjit",
        package="drjit 1.5.0",
        packages=("drjit==1.5.0", "numpy", "pytest", "pytest-timeout"),
        repository="https://github.com/mitsuba-renderer/drjit",
        tag="v1.5.0",
        folder="{tests}/tests",
        command=(
            *PYTEST, "--timeout=300", "-k", "cuda and not llvm and not test36_uint8_write and not (test33_uint8 and True)", "test_memop.py", "test_reduction.py",
            "test_switch.py", "test_while_loop.py", "test_if_stmt.py", "test_texture.py",
        ),
        selection="memory operations, reductions, calls, loops, branches, textures but sRGB ones (Cuttle refuses them, and Dr.Jit then aborts); no NVIDIA software",
        reasons=(OPTIX,),
    ),
    Client(
        name="cuda-python",
        package="cuda-python 12.3.0",
        packages=(
            "pytest", "pytest-benchmark", "pytest-timeout", "numpy<2.5", "cython<3.1", "pyclibrary",
            "nvidia-cuda-nvrtc-cu12==12.9.86",
        ),
        bare=("cuda-python==12.3.0",),
        folder="{site}/cuda/tests",
        command=(*PYTEST, "--benchmark-disable", "--timeout=100", "-p", "ask_nvrtc_for_ptx"),
        environment={"LD_LIBRARY_PATH": "{site}/nvidia/cuda_nvrtc/lib", "PYTHONPATH": "{tools}/python_client_plugins"},
        selection="all; a plugin asks NVRTC for PTX where the tests ask it for machine code",
    ),
    Client(
        name="numba-cuda",
        package="numba-cuda 0.30.4",
        packages=(
            "numba==0.68.1", "cuda-pathfinder", "pytest", "pytest-xdist", "pytest-benchmark", "pytest-timeout", "filecheck",
            "psutil", "cffi", "ml-dtypes",
        ),
        bare=(
            "numba-cuda==0.30.4", "cuda-bindings==13.5.0", "cuda-core==1.2.2", "nvidia-cuda-nvrtc==13.5.37",
            "nvidia-nvvm==13.5.37",
        ),
        repository="https://github.com/NVIDIA/numba-cuda",
        tag="v0.30.4",
        folder="{tests}/testing",
        command=(
            *PYTEST, "-o", "addopts=--benchmark-disable", "--timeout=600", "-W", "ignore", "-n", "2", "--dist", "loadscope",
            "--pyargs", "numba.cuda.tests",
        ),
        selection="all",
        reasons=(
            IPC,
            Reason("test_set_registers_no_max", "expects the register count of machine code; Cuttle's kernels have none"),
            Reason("CUDAAndCPUCachingTest", "counts the files of Numba's two compile caches; no driver call fails in it"),
            Reason("timed out after 30 seconds", "a limit of 30 s that the suite sets, missed on a busy machine (right when run alone)"),
        ),
    ),
    Client(
        name="tinygrad",
        package="tinygrad 0.14.0",
        packages=("tinygrad==0.14.0", "numpy", "torch==2.13.0+cpu", "pytest", "pytest-timeout", "hypothesis"),
        repository="https://github.com/tinygrad/tinygrad",
        tag="v0.14.0",
        folder="{tests}",
        command=(*PYTEST, "--timeout=300", "test/backend/test_ops.py"),
        environment={"DEV": "CUDA:PTX", "CACHELEVEL": "0"},
        selection="`test/backend/test_ops.py` with the PTX renderer (its CPU device needs clang); no NVIDIA software",
        reasons=(
            Reason(
                "test_(sin|cos|tan)\\b",
                "the renderer emits `sin.approx.f32` for arguments up to 1e6 and the test wants 3e-3; the instruction gives an H200's bits",
            ),
        ),
    ),
    Client(
        name="warp",
        package="warp-lang 1.19.0",
        packages=("warp-lang==1.19.0",),
        command=(
            "-u", "-m", "warp.tests", "--serial-fallback", "-s", "default", "--junit-report-xml", "{xml}",
            "-k", "test_launch.", "-k", "test_rand.", "-k", "test_streams.", "-k", "test_array_reduce.", "-k",
            "test_runlength_encode.", "-k", "test_hash_grid.", "-k", "test_async.TestAsync.test_copy_c2",
        ),
        environment={"WARP_CACHE_PATH": "{build}/warp-cache"},
        options=("--driver-version", "13.4"),
        selection="launches, random numbers, streams, reductions, hash grids, copies with and without graphs",
    ),
    Client(
        name="cupy",
        package="cupy-cuda13x 14.2.0",
        packages=("cupy-cuda13x[ctk]==14.2.0", "pytest", "pytest-timeout"),
        repository="https://github.com/cupy/cupy",
        tag="v14.2.0",
        folder="{tests}/tests",
        command=(
            *PYTEST, "--timeout=60", "cupy_tests/core_tests/test_userkernel.py", "cupy_tests/core_tests/test_elementwise.py",
            "cupy_tests/core_tests/test_ndarray_unary_op.py", "cupy_tests/core_tests/test_ndarray_reduction.py",
        ),
        environment={"CUPY_COMPILE_WITH_PTX": "1", "CUPY_CACHE_DIR": "{build}/cupy-cache"},
        selection="four files of `core_tests`: kernels of the user's, elementwise operations, reductions; NVRTC makes PTX (`CUPY_COMPILE_WITH_PTX=1`)",
        reasons=(Reason("CURAND_STATUS_INITIALIZATION_FAILED", "needs cuRAND, whose kernels come as machine code only"), Reason("multigpu", "needs a second GPU")),
    ),
    Client(
        name="taichi",
        package="taichi 1.7.4",
        packages=(
            "taichi==1.7.4", "numpy<2.5", "pytest", "pytest-xdist", "pytest-rerunfailures", "cffi", "psutil", "nbmake", "requests",
            "Pillow",
        ),
        repository="https://github.com/taichi-dev/taichi",
        tag="v1.7.4",
        folder="{tests}",
        command=(
            "-m", "pytest", "-p", "no:cacheprovider", "-p", "pytest_hardtle", "-q", "--tb=short", "--junitxml={xml}",
            "tests/python/test_abs.py", "tests/python/test_while.py", "tests/python/test_cast.py",
            "tests/python/test_local_atomics.py", "tests/python/test_reduction.py",
        ),
        environment={"TI_WANTED_ARCHS": "cuda", "PYTEST_TIMEOUT": "600", "PYTHONPATH": "{tests}:{tests}/tests"},
        selection="five files of `tests/python`: arithmetic, atomics, casts, reductions, loops",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class ByHand:
    """A package that no command of ours installs: how it was built and run, and what came of it."""

    package: str
    built: str
    command: str
    result: str


BY_HAND: tuple[ByHand, ...] = (
    ByHand(
        package="PyCUDA 2026.1",
        built="from its source distribution, against the headers of NVIDIA's wheels and Cuttle's `libcuda.so`, without cuRAND",
        command="cuttle run -- env PYTHONPATH=tools/python_client_plugins python -m pytest -p ask_nvcc_for_ptx test/test_driver.py",
        result="19 passed, 11 skipped, 2 failed (they link `libcudadevrt.a`, which the wheels lack), on 2026-12-01 in 7 s;"
        " `test_gpuarray.py` was stopped for lack of time",
    ),
)
