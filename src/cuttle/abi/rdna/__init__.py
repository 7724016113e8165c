"""Facts about the instruction sets of AMD's RDNA GPUs."""
