"""Why there is no AMD device, as errors with codes: one line each, and what the user can do."""

from __future__ import annotations

from cuttle.errors import DeviceError

LIBRARY_MISSING, NO_DRIVER, NO_GPU = "library missing", "no driver", "no GPU"

NO_DEVICE_HINTS = {
    LIBRARY_MISSING: "Install AMD's HIP runtime (Debian, Ubuntu: libamdhip64; AMD's ROCm packages; Windows: AMD's graphics driver).",
    NO_DRIVER: "Is the kernel driver amdgpu loaded, and may you open /dev/kfd? `cuttle doctor -v amd_driver` looks.",
    NO_GPU: "Do HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES hide it? Does this HIP version still support it?",
}


class NoAmdDevice(DeviceError):
    """There is no AMD device to use. `reason` is a key of `NO_DEVICE_HINTS`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__("DEV-0202", message, hint=NO_DEVICE_HINTS[reason])
        self.reason = reason
