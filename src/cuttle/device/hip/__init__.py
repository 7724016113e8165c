"""AMD GPUs through HIP: finding the driver and AMD's libraries, and what devices there are (docs/design/amdgpu.md)."""
