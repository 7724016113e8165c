"""Programs that `cuttle stack bench` measures: driver-API programs of our own, with kernels shipped as PTX."""

NAMES = ("gemm", "nbody", "ppo")
