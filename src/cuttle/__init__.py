"""Cuttle runs unmodified CUDA programs on machines without an NVIDIA GPU."""

__version__ = "0.1.0"
