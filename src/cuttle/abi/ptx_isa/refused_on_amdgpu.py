"""The closed list of PTX that runs on the CPU device and is refused on AMD GPUs: error code, title, why, and what to do.

Only the kernel that holds it is refused. `tests/lower/amdgpu/test_refused.py` has an example of each.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RefusedOnAmdgpu:
    """One kind of PTX."""

    code: str
    title: str
    explanation: str
    hint: str


_CPU = "Use the CPU device for this program (CUTTLE_DEVICE=cpu)."

ATOMICS_128 = RefusedOnAmdgpu(
    "PTX-0601", "128-bit atomics on an AMD GPU", "No AMD GPU compares or exchanges 128 bits at once.", _CPU,
)  # fmt: skip
BARRIER_IN_FUNCTION = RefusedOnAmdgpu(
    "PTX-0602", "barrier in a called function on an AMD GPU",
    "The function is recursive or called through a pointer, so lanes of a warp may come to its barrier at different times.",
    "Move the barrier to the kernel, or to a function that is called directly.",
)  # fmt: skip
EXIT_IN_FUNCTION = RefusedOnAmdgpu(
    "PTX-0603", "end of a thread in a called function on an AMD GPU",
    "The function is recursive or called through a pointer and ends the thread; the machine code of its callers could not tell.",
    "Return from the function, and end the thread in the kernel.",
)  # fmt: skip
STATIC_SHARED = RefusedOnAmdgpu(
    "PTX-0605", "too much shared memory for an AMD GPU",
    "A work-group has 65,536 bytes of LDS, less than the shared memory of recent NVIDIA GPUs.",
    "Use smaller tiles, or the CPU device.",
)  # fmt: skip
SPACE_OF_CONSTANTS = RefusedOnAmdgpu(
    "PTX-0606", "whether an address is one of constant memory, on an AMD GPU",
    "Constants lie among the global variables there; in a module with constants isspacep.const and isspacep.global have no sure answer.",
    _CPU,
)  # fmt: skip
CLUSTERS = RefusedOnAmdgpu(
    "PTX-0607", "thread block clusters on an AMD GPU", "No AMD GPU lets work-groups reach each other's LDS.",
    "Compile for sm_80, or let the program choose its code for compute capability 8.0 (CUTTLE_COMPUTE_CAPABILITY).",
)  # fmt: skip
TEXTURE_FORMS = RefusedOnAmdgpu(
    "PTX-0609", "cube maps, levels, gradients and texel offsets on an AMD GPU",
    "The code that is emitted there reads the first level of an image, at places that are not moved.", _CPU,
)  # fmt: skip

REFUSED_ON_AMDGPU = (ATOMICS_128, BARRIER_IN_FUNCTION, EXIT_IN_FUNCTION, STATIC_SHARED, SPACE_OF_CONSTANTS, CLUSTERS, TEXTURE_FORMS)
