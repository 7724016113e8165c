"""An emulator for AMD RDNA GPUs that executes linked code objects in NumPy; see docs/design/rdna_emulator.md."""
