"""AMD's code object manager (libamd_comgr): its two interfaces, as rows.

Facts: AMD's public headers of comgr 2.4 and 3.3. The numbers of actions differ between interface 2 and 3, and wrong ones do another
action without an error, so every number is looked up by interface.
"""

from __future__ import annotations

DATA_KINDS = {"SOURCE": 1, "INCLUDE": 2, "LOG": 5, "BC": 6, "RELOCATABLE": 7, "EXECUTABLE": 8, "BYTES": 9}

# Action → its number in interface 2 and in interface 3; None: not there.
ACTIONS: dict[str, tuple[int | None, int | None]] = {
    "SOURCE_TO_PREPROCESSOR": (0, 0),
    "ADD_PRECOMPILED_HEADERS": (1, 1),
    "COMPILE_SOURCE_TO_BC": (2, 2),
    "ADD_DEVICE_LIBRARIES": (3, None),
    "LINK_BC_TO_BC": (4, 3),
    "OPTIMIZE_BC_TO_BC": (5, None),
    "CODEGEN_BC_TO_RELOCATABLE": (6, 4),
    "CODEGEN_BC_TO_ASSEMBLY": (7, 5),
    "LINK_RELOCATABLE_TO_RELOCATABLE": (8, 6),
    "LINK_RELOCATABLE_TO_EXECUTABLE": (9, 7),
    "ASSEMBLE_SOURCE_TO_RELOCATABLE": (10, 8),
    "DISASSEMBLE_RELOCATABLE_TO_SOURCE": (11, 9),
    "DISASSEMBLE_EXECUTABLE_TO_SOURCE": (12, 10),
    "DISASSEMBLE_BYTES_TO_SOURCE": (13, 11),
    "COMPILE_SOURCE_TO_FATBIN": (14, None),
    "COMPILE_SOURCE_WITH_DEVICE_LIBS_TO_BC": (15, 12),
}

STATUS = {0: "SUCCESS", 1: "ERROR", 2: "ERROR_INVALID_ARGUMENT", 3: "ERROR_OUT_OF_RESOURCES"}

# Graphics drivers for Windows since 25.5.1 have a comgr that says 2.9 and speaks interface 3; 2.8 is the last that speaks 2.
WINDOWS_FIRST_VERSION_OF_INTERFACE_3 = (2, 9)


def interface_of(version: tuple[int, int], windows: bool) -> int:
    """The interface (2 or 3) that a comgr speaks which says it is of this version."""
    if version[0] >= 3 or (windows and version >= WINDOWS_FIRST_VERSION_OF_INTERFACE_3):
        return 3
    return 2


def action_number(action: str, interface: int) -> int | None:
    """The number of an action, or None where the interface lacks it."""
    return ACTIONS[action][interface - 2]
