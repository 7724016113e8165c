"""AMD's HIP runtime as Cuttle uses it: functions, error codes, device attributes and struct layouts, as frozen rows.

Facts: prototypes and numbers of AMD's public headers of HIP 5.2.3 (Debian 12) and HIP 6.3. What differs between major versions
says so in its row. Nothing of HIP 6 and 7 has been run against AMD's libraries: see `PropertiesLayout.evidence`.
"""

from __future__ import annotations

from dataclasses import dataclass

MAJORS = (7, 6, 5)


@dataclass(frozen=True, slots=True)
class HipFunction:
    """One function of libamdhip64.

    `arguments`: a kind each. `i32`, `u32`, `u64`, `size`, `u8`, `u16`, `handle` (stream, event, module, ...), `device` (an address on the
    GPU), `host` (an address of ours), `text` (a C string), `function` (a callback); `*` in front: where such a value is written.
    `result`: `error` (hipError_t) or `text`. It exists from HIP `since` to `until` in the form described. `everywhere` is false
    for functions that HIP 5.2.3 lacks: they are asked for when they are needed.
    """

    name: str
    arguments: tuple[str, ...]
    since: int = 5
    until: int = 7
    everywhere: bool = True
    result: str = "error"

    def exists_in(self, major: int) -> bool:
        """Whether a library of this major version must have it."""
        return self.everywhere and self.since <= major <= self.until


def _row(name: str, arguments: str = "", since: int = 5, until: int = 7, everywhere: bool = True, result: str = "error") -> HipFunction:
    return HipFunction(name, tuple(arguments.split()), since, until, everywhere, result)


FUNCTIONS: tuple[HipFunction, ...] = (
    # -- start, errors
    _row("hipInit", "u32"),
    _row("hipDriverGetVersion", "*i32"),
    _row("hipRuntimeGetVersion", "*i32"),
    _row("hipGetErrorName", "i32", result="text"),
    _row("hipGetErrorString", "i32", result="text"),
    _row("hipGetLastError"),
    # -- devices. The plain hipGetDeviceProperties keeps writing HIP 5's struct in later libraries.
    _row("hipGetDeviceCount", "*i32"),
    _row("hipGetDevice", "*i32"),
    _row("hipSetDevice", "i32"),
    _row("hipDeviceGet", "*i32 i32"),
    _row("hipDeviceGetName", "host i32 i32"),
    _row("hipDeviceGetAttribute", "*i32 i32 i32"),
    _row("hipDeviceTotalMem", "*size i32"),
    _row("hipDeviceGetPCIBusId", "host i32 i32"),
    _row("hipDeviceGetUuid", "host i32"),
    _row("hipGetDeviceProperties", "host i32", until=5),
    _row("hipGetDevicePropertiesR0600", "host i32", since=6),
    _row("hipDeviceSynchronize"),
    _row("hipDeviceReset"),
    _row("hipDeviceSetLimit", "i32 size", since=6),
    _row("hipDeviceCanAccessPeer", "*i32 i32 i32"),
    _row("hipDevicePrimaryCtxRetain", "*handle i32"),
    _row("hipDevicePrimaryCtxRelease", "i32"),
    # -- modules and launches
    _row("hipModuleLoadData", "*handle host"),
    _row("hipModuleUnload", "handle"),
    _row("hipModuleGetFunction", "*handle handle text"),
    _row("hipModuleGetGlobal", "*device *size handle text"),
    _row("hipModuleLaunchKernel", "handle u32 u32 u32 u32 u32 u32 u32 handle host host"),
    _row("hipModuleLaunchCooperativeKernel", "handle u32 u32 u32 u32 u32 u32 u32 handle host", everywhere=False),
    _row("hipFuncGetAttribute", "*i32 i32 handle"),
    _row("hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", "*i32 handle i32 size"),
    _row("hipModuleOccupancyMaxPotentialBlockSize", "*i32 *i32 handle size i32"),
    # -- memory
    _row("hipMalloc", "*device size"),
    _row("hipFree", "device"),
    _row("hipMallocAsync", "*device size handle"),
    _row("hipFreeAsync", "device handle"),
    _row("hipMallocManaged", "*device size u32"),
    _row("hipMemAllocPitch", "*device *size size size u32"),
    _row("hipHostMalloc", "*host size u32"),
    _row("hipHostFree", "host"),
    _row("hipHostRegister", "host size u32"),
    _row("hipHostUnregister", "host"),
    _row("hipHostGetDevicePointer", "*device host u32"),
    _row("hipMemGetInfo", "*size *size"),
    _row("hipMemGetAddressRange", "*device *size device"),
    _row("hipMemcpyHtoD", "device host size"),
    _row("hipMemcpyDtoH", "host device size"),
    _row("hipMemcpyDtoD", "device device size"),
    _row("hipMemcpyHtoDAsync", "device host size handle"),
    _row("hipMemcpyDtoHAsync", "host device size handle"),
    _row("hipMemcpyDtoDAsync", "device device size handle"),
    _row("hipMemsetD8", "device u8 size"),
    _row("hipMemsetD16", "device u16 size"),
    _row("hipMemsetD32", "device i32 size"),
    _row("hipMemsetD8Async", "device u8 size handle"),
    _row("hipMemsetD16Async", "device u16 size handle"),
    _row("hipMemsetD32Async", "device i32 size handle"),
    # -- memory at chosen addresses
    _row("hipMemAddressReserve", "*device size size device u64"),
    _row("hipMemAddressFree", "device size"),
    _row("hipMemGetAllocationGranularity", "*size host i32"),
    _row("hipMemCreate", "*handle size host u64"),
    _row("hipMemRelease", "handle"),
    _row("hipMemMap", "device size size handle u64"),
    _row("hipMemUnmap", "device size"),
    _row("hipMemSetAccess", "device size host size"),
    # -- streams and events
    _row("hipStreamCreateWithFlags", "*handle u32"),
    _row("hipStreamCreateWithPriority", "*handle u32 i32"),
    _row("hipStreamDestroy", "handle"),
    _row("hipStreamSynchronize", "handle"),
    _row("hipStreamQuery", "handle"),
    _row("hipStreamWaitEvent", "handle handle u32"),
    _row("hipStreamAddCallback", "handle function host u32"),
    _row("hipLaunchHostFunc", "handle function host", everywhere=False),
    _row("hipEventCreateWithFlags", "*handle u32"),
    _row("hipEventRecord", "handle handle"),
    _row("hipEventQuery", "handle"),
    _row("hipEventSynchronize", "handle"),
    _row("hipEventElapsedTime", "*f32 handle handle"),
    _row("hipEventDestroy", "handle"),
)  # fmt: skip

SUCCESS = 0
INVALID_VALUE = 1
NOT_INITIALIZED = 3
NO_DEVICE = 100
INVALID_DEVICE = 101
NOT_SUPPORTED = 801
OUT_OF_MEMORY = 2
INVALID_CONFIGURATION = 9
INVALID_IMAGE = 200
NO_BINARY_FOR_GPU = 209
INVALID_HANDLE = 400
NOT_FOUND = 500
NOT_READY = 600
ILLEGAL_ADDRESS = 700
LAUNCH_TIME_OUT = 702
ASSERT = 710
LAUNCH_FAILURE = 719

STREAM_NON_BLOCKING = 1
EVENT_DISABLE_TIMING = 2
LIMIT_STACK_SIZE = 0
# Of `extra` in hipModuleLaunchKernel: HIP_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE and _END (CUDA's are 1, 2, 0).
LAUNCH_BUFFER_POINTER, LAUNCH_BUFFER_SIZE, LAUNCH_END = 1, 2, 3

# hipError_t, the same numbers in HIP 5 and 6.
ERRORS: dict[int, str] = {
    0: "hipSuccess", 1: "hipErrorInvalidValue", 2: "hipErrorOutOfMemory", 3: "hipErrorNotInitialized", 4: "hipErrorDeinitialized",
    5: "hipErrorProfilerDisabled", 6: "hipErrorProfilerNotInitialized", 7: "hipErrorProfilerAlreadyStarted",
    8: "hipErrorProfilerAlreadyStopped", 9: "hipErrorInvalidConfiguration", 12: "hipErrorInvalidPitchValue",
    13: "hipErrorInvalidSymbol", 17: "hipErrorInvalidDevicePointer", 21: "hipErrorInvalidMemcpyDirection",
    35: "hipErrorInsufficientDriver", 52: "hipErrorMissingConfiguration", 53: "hipErrorPriorLaunchFailure",
    98: "hipErrorInvalidDeviceFunction", 100: "hipErrorNoDevice", 101: "hipErrorInvalidDevice", 200: "hipErrorInvalidImage",
    201: "hipErrorInvalidContext", 202: "hipErrorContextAlreadyCurrent", 205: "hipErrorMapFailed", 206: "hipErrorUnmapFailed",
    207: "hipErrorArrayIsMapped", 208: "hipErrorAlreadyMapped", 209: "hipErrorNoBinaryForGpu", 210: "hipErrorAlreadyAcquired",
    211: "hipErrorNotMapped", 212: "hipErrorNotMappedAsArray", 213: "hipErrorNotMappedAsPointer", 214: "hipErrorECCNotCorrectable",
    215: "hipErrorUnsupportedLimit", 216: "hipErrorContextAlreadyInUse", 217: "hipErrorPeerAccessUnsupported",
    218: "hipErrorInvalidKernelFile", 219: "hipErrorInvalidGraphicsContext", 300: "hipErrorInvalidSource",
    301: "hipErrorFileNotFound", 302: "hipErrorSharedObjectSymbolNotFound", 303: "hipErrorSharedObjectInitFailed",
    304: "hipErrorOperatingSystem", 400: "hipErrorInvalidHandle", 401: "hipErrorIllegalState", 500: "hipErrorNotFound",
    600: "hipErrorNotReady", 700: "hipErrorIllegalAddress", 701: "hipErrorLaunchOutOfResources", 702: "hipErrorLaunchTimeOut",
    704: "hipErrorPeerAccessAlreadyEnabled", 705: "hipErrorPeerAccessNotEnabled", 708: "hipErrorSetOnActiveProcess",
    709: "hipErrorContextIsDestroyed", 710: "hipErrorAssert", 712: "hipErrorHostMemoryAlreadyRegistered",
    713: "hipErrorHostMemoryNotRegistered", 719: "hipErrorLaunchFailure", 720: "hipErrorCooperativeLaunchTooLarge",
    801: "hipErrorNotSupported", 900: "hipErrorStreamCaptureUnsupported", 901: "hipErrorStreamCaptureInvalidated",
    902: "hipErrorStreamCaptureMerge", 903: "hipErrorStreamCaptureUnmatched", 904: "hipErrorStreamCaptureUnjoined",
    905: "hipErrorStreamCaptureIsolation", 906: "hipErrorStreamCaptureImplicit", 907: "hipErrorCapturedEvent",
    908: "hipErrorStreamCaptureWrongThread", 910: "hipErrorGraphExecUpdateFailure", 999: "hipErrorUnknown",
    1052: "hipErrorRuntimeMemory", 1053: "hipErrorRuntimeOther",
}  # fmt: skip

# hipDeviceAttribute_t, the same numbers in HIP 5 and 6. The names are those of the device reports.
ATTRIBUTES: dict[str, int] = {
    "warp_size": 87,
    "multiprocessor_count": 63,
    "max_threads_per_block": 56,
    "max_shared_memory_per_block": 74,
    "clock_rate_khz": 5,
    "memory_clock_rate_khz": 60,
    "memory_bus_width": 59,
    "l2_cache_bytes": 19,
    "integrated": 16,
    "cooperative_launch": 10,
    "managed_memory": 24,
    "pci_domain": 69,
    "pci_bus": 67,
    "pci_device": 68,
}


@dataclass(frozen=True, slots=True)
class PropertiesLayout:
    """hipDeviceProp_t of one major version: who fills it, its size, and offset and kind of the fields that are looked at.

    Kinds: `i32`, `u64`, `text256` (a C string in 256 bytes). `evidence` is printed by `cuttle doctor -v`.
    """

    major: int
    function: str
    size: int
    fields: dict[str, tuple[int, str]]
    evidence: str


_HIP_5_FIELDS = {
    "name": (0, "text256"),
    "totalGlobalMem": (256, "u64"),
    "warpSize": (276, "i32"),
    "multiProcessorCount": (336, "i32"),
    "gcnArchName": (396, "text256"),
}
_R0600_FIELDS = {
    "name": (0, "text256"),
    "totalGlobalMem": (288, "u64"),
    "warpSize": (308, "i32"),
    "multiProcessorCount": (388, "i32"),
    "gcnArchName": (1160, "text256"),
}

PROPERTIES: dict[int, PropertiesLayout] = {
    5: PropertiesLayout(
        5, "hipGetDeviceProperties", 792, _HIP_5_FIELDS,
        "struct layout compiled from the header of HIP 5.2.3; not verified on hardware",
    ),
    6: PropertiesLayout(
        6, "hipGetDevicePropertiesR0600", 1472, _R0600_FIELDS,
        "struct layout not verified (compiled from AMD's public header of HIP 6.3, never run against the library)",
    ),
    7: PropertiesLayout(
        7, "hipGetDevicePropertiesR0600", 1472, _R0600_FIELDS,
        "struct layout not verified (that of HIP 6, which the header of HIP 7.1 repeats, never run against the library)",
    ),
}  # fmt: skip

@dataclass(frozen=True, slots=True)
class AllocationLayout:
    """hipMemAllocationProp (32 bytes) of one major version: offsets of its i32 fields. Handle types stay 0."""

    major: int
    type: int
    location_type: int
    location_id: int


ALLOCATION_BYTES = 32
ALLOCATION_PINNED, LOCATION_DEVICE, ACCESS_READ_WRITE = 1, 1, 3
# Compiled from the headers of HIP 5.2.3 and 7.1; that of HIP 6 is taken to be HIP 7's. hipMemAccessDesc is i32 location type, i32
# location id, i32 access in all of them.
ALLOCATIONS: dict[int, AllocationLayout] = {
    5: AllocationLayout(5, 16, 4, 8),
    6: AllocationLayout(6, 0, 8, 12),
    7: AllocationLayout(7, 0, 8, 12),
}

# Memory of the GPU is made in pieces of this size (what HIP asks for is a divisor: 4 KiB or 2 MiB).
MIRROR_GRANULE_BYTES = 2 << 20

VERSION_MAJOR_UNIT, VERSION_MINOR_UNIT = 10_000_000, 100_000


def split_version(number: int) -> tuple[int, int, int]:
    """What hipRuntimeGetVersion writes, as (major, minor, patch): 50221153 is 5.2.21153."""
    major, rest = divmod(number, VERSION_MAJOR_UNIT)
    minor, patch = divmod(rest, VERSION_MINOR_UNIT)
    return major, minor, patch
