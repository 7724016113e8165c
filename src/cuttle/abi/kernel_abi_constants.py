"""Plain constants of the kernel ABI, importable without `dataclasses` (the device process starts with this).

Function handles: what a function's address looks like to device code. `mov.u64 %rd, function` and initialisers of
variables hold FUNCTION_HANDLE_BASE | index, where index is the position of the function's name in the sorted list of
all address-taken functions of the linked module (`ptx/address_taken.py`). The runtime writes handles when it
initialises variables; an indirect call in generated code dispatches on the index. The value is no address of the arena,
so a stray data access through a handle faults.
"""

FUNCTION_HANDLE_BASE = 0x7C00_0000_0000_0000
FUNCTION_HANDLE_INDEX_MASK = 0xFFFF_FFFF

# The image file begins with: magic, bytes of metadata (u64), SHA-256 of metadata and blob.
IMAGE_MAGIC = b"CUTTLEI1"
IMAGE_HEADER_BYTES = 48
