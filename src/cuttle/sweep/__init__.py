"""Instruction sweeps: forms and value domains, what an NVIDIA GPU answered for them, verdicts of a device, sharding."""
