"""CUresult numbers that the device process answers, and the exception that carries one."""

from __future__ import annotations

SUCCESS = 0
INVALID_VALUE = 1
OUT_OF_MEMORY = 2
NOT_INITIALIZED = 3
DEVICE_UNAVAILABLE = 46
INVALID_DEVICE = 101
INVALID_IMAGE = 200
INVALID_CONTEXT = 201
NO_BINARY_FOR_GPU = 209
UNSUPPORTED_LIMIT = 215
INVALID_PTX = 218
UNSUPPORTED_PTX_VERSION = 222
INVALID_SOURCE = 300
OPERATING_SYSTEM = 304
INVALID_HANDLE = 400
ILLEGAL_STATE = 401
NOT_FOUND = 500
ILLEGAL_ADDRESS = 700
LAUNCH_OUT_OF_RESOURCES = 701
LAUNCH_TIMEOUT = 702
CONTEXT_IS_DESTROYED = 709
HOST_MEMORY_ALREADY_REGISTERED = 712
HOST_MEMORY_NOT_REGISTERED = 713
LAUNCH_FAILED = 719
COOPERATIVE_LAUNCH_TOO_LARGE = 720
NOT_PERMITTED = 800
NOT_SUPPORTED = 801
NO_DEVICE = 100
SYSTEM_NOT_READY = 802
STREAM_CAPTURE_UNSUPPORTED = 900
STREAM_CAPTURE_INVALIDATED = 901
STREAM_CAPTURE_MERGE = 902
STREAM_CAPTURE_UNMATCHED = 903
STREAM_CAPTURE_UNJOINED = 904
STREAM_CAPTURE_ISOLATION = 905
STREAM_CAPTURE_IMPLICIT = 906
CAPTURED_EVENT = 907
GRAPH_EXEC_UPDATE_FAILURE = 910
UNKNOWN = 999


class CudaError(Exception):
    """A call's answer is a CUresult other than success. `values` and `payload` go with it where the row says so."""

    def __init__(self, result: int, text: str = "", values: tuple[int, ...] = (), payload: bytes = b"") -> None:
        super().__init__(text or f"CUresult {result}")
        self.result = result
        self.text = text
        self.values = values
        self.payload = payload


class Reply:
    """An answer with a payload."""

    __slots__ = ("payload", "values")

    def __init__(self, values: tuple[int, ...] = (), payload: bytes = b"") -> None:
        self.values = values
        self.payload = payload
