"""Every error a user can meet: code, title, explanation, hint. One frozen row each; `cuttle explain CODE` prints it.

Families: `PTX-01xx` syntax, `PTX-02xx` names, `PTX-03xx` limits and unsupported forms, `PTX-04xx` linking, `PTX-05xx` refused, `PTX-06xx` refused on AMD GPUs, `CON-xxxx`
containers (fat binaries, ELF, PE), `SWP-xxxx` sweeps, `API-xxxx` CUDA functions, `CLI-xxxx` commands, `DEV-xxxx` devices,
`STK-xxxx` the AMD stack manager, `STS-xxxx` self-tests.
A code never changes its meaning and is never reused.
"""

from __future__ import annotations

from dataclasses import dataclass

from cuttle.abi.ptx_isa.refused import REFUSED
from cuttle.abi.ptx_isa.refused_on_amdgpu import REFUSED_ON_AMDGPU
from cuttle.abi.stack_errors import STACK_ERRORS


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One user-facing error: what it is called, why it happens, what the user can do."""

    code: str
    title: str
    explanation: str
    hint: str


_REPORT = "If another tool accepts this file, it is a gap in Cuttle: please report it with the file."

ERRORS: tuple[ErrorRow, ...] = (
    # -- PTX syntax ---------------------------------------------------------------------------------------------
    ErrorRow("PTX-0101", "unexpected text", "The PTX text does not follow the grammar at the place shown.", _REPORT),
    ErrorRow(
        "PTX-0102",
        "unterminated text",
        "A comment, string, bracket, block or statement is opened but the module ends before it is closed.",
        "The PTX may have been cut off: check that the whole file or buffer was passed.",
    ),
    ErrorRow("PTX-0103", "unknown directive", "No directive of this name exists in PTX 9.x at this place.", _REPORT),
    ErrorRow(
        "PTX-0104",
        "unknown instruction",
        "No instruction of this name exists in PTX 9.x.",
        "Check the spelling, or whether the PTX was made by a newer compiler than PTX 9.x.",
    ),
    ErrorRow(
        "PTX-0105",
        "bad constant",
        "A number or constant expression is malformed, divides by zero, or does not fit 64 bits.",
        "Integer constants are 64 bits wide; floating-point bit patterns are 0f + 8 or 0d + 16 hexadecimal digits.",
    ),
    ErrorRow("PTX-0106", "bad operand", "An operand has a form that PTX does not know.", _REPORT),
    ErrorRow("PTX-0107", "unknown type", "The type is none of the fundamental types of PTX 9.x.", _REPORT),
    ErrorRow(
        "PTX-0110",
        "bad module header",
        "A module must begin with .version and .target; .version may stand only once.",
        "Is this really PTX text? `cuttle scan FILE` says what a file holds.",
    ),
    # -- PTX names ----------------------------------------------------------------------------------------------
    ErrorRow(
        "PTX-0201",
        "undeclared register",
        "The instruction uses a register that no .reg directive in scope declares, and that is no special register.",
        "Declare it with .reg in the same or an enclosing block.",
    ),
    ErrorRow("PTX-0202", "undefined label", "A branch names a label that is not visible from its block.", _REPORT),
    ErrorRow(
        "PTX-0203",
        "undefined symbol",
        "The name is neither a variable, nor a parameter, nor a function that is visible here.",
        "Functions and variables of other modules need an .extern declaration.",
    ),
    ErrorRow("PTX-0204", "declared twice", "The name already exists in this scope.", "Rename one of the two."),
    ErrorRow("PTX-0205", "guard is no predicate", "The register after @ must be of type .pred.", _REPORT),
    ErrorRow(
        "PTX-0206",
        "no such function",
        "The module holds no function body of this name.",
        "C++ kernels have mangled names: `cuttle scan FILE` lists them.",
    ),
    ErrorRow("PTX-0207", "broken instruction", "The instruction breaks a rule of its operands.", _REPORT),
    # -- PTX limits ---------------------------------------------------------------------------------------------
    ErrorRow(
        "PTX-0301",
        "too large",
        "A size in the module exceeds what Cuttle accepts (a guard against hostile input).",
        "If the module is genuine, please report it: the limit can be raised.",
    ),
    ErrorRow("PTX-0302", "nested too deeply", "Blocks, brackets or initialisers nest deeper than allowed.", _REPORT),
    ErrorRow("PTX-0303", "initialiser does not fit", "The initialiser holds more elements than the variable.", _REPORT),
    ErrorRow(
        "PTX-0304",
        "form not supported",
        "This is valid PTX of a form that Cuttle does not translate yet.",
        "Please report the program that needs it.",
    ),
    ErrorRow(
        "PTX-0305",
        "kernel without code",
        "The body only prints a message or traps: the library holds no code of this kernel for the chosen target.",
        "Report another compute capability (see `cuttle explain` on the knob) so that the library takes other code.",
    ),
    # -- PTX that is refused: `abi/ptx_isa/refused.py` ---------------------------------------------------------
    *(ErrorRow(row.code, row.title, row.explanation, row.hint) for row in REFUSED),
    *(ErrorRow(row.code, row.title, row.explanation, row.hint) for row in REFUSED_ON_AMDGPU),
    ErrorRow(
        "PTX-0390",
        "code generation failed",
        "LLVM refused the text that Cuttle wrote for a kernel, or the object it made could not be linked.",
        "Please report it with the PTX file; the other kernels of the module are not affected.",
    ),
    ErrorRow(
        "PTX-0391",
        "translator failed",
        "Cuttle's translator tripped over an instruction of a form that it should know. This is a fault of Cuttle's.",
        "Please report it with the PTX file; the other kernels of the module are not affected.",
    ),
    # -- PTX linking --------------------------------------------------------------------------------------------
    ErrorRow(
        "PTX-0401",
        "unresolved symbols",
        "Symbols are declared .extern but none of the linked modules defines them.",
        "Pass the missing object to the linker (nvcc: link all -rdc objects; cuLink: cuLinkAddData for each).",
    ),
    ErrorRow(
        "PTX-0402",
        "defined twice",
        "Two of the linked modules define the same global symbol, and neither is .weak or .common.",
        "Make one definition static or weak, or link the object only once.",
    ),
    ErrorRow(
        "PTX-0403",
        "declarations disagree",
        "Two modules declare the same symbol as different things (kind, space, size or parameters).",
        "Recompile both against the same header.",
    ),
    ErrorRow("PTX-0404", "modules do not fit", "The linked modules differ in address size.", "Recompile one of them."),
    ErrorRow("PTX-0405", "nothing to link", "The list of modules is empty.", "Add at least one PTX module."),
    # -- containers ---------------------------------------------------------------------------------------------
    ErrorRow(
        "CON-0101",
        "not a container",
        "The data does not begin as a fat binary, cubin, PTX text or linked image of Cuttle.",
        "`cuttle scan FILE` says what a file holds.",
    ),
    ErrorRow(
        "CON-0102",
        "truncated container",
        "A header or payload reaches past the end of the data.",
        "The file may be cut off; compare its size with the original.",
    ),
    ErrorRow("CON-0103", "malformed container", "A field of a header has an impossible value.", _REPORT),
    ErrorRow(
        "CON-0104",
        "decompression failed",
        "A compressed payload is damaged, or decompresses to another size than its header says.",
        "The file may be damaged; compare it with the original.",
    ),
    ErrorRow(
        "CON-0105",
        "payload too large",
        "A payload decompresses to more than Cuttle accepts (a guard against hostile input).",
        "If the file is genuine, please report it: the limit can be raised.",
    ),
    ErrorRow(
        "CON-0106",
        "decompressor missing",
        "The payload is compressed and the Python package that decompresses it is not installed.",
        "Install it: pip install lz4 backports.zstd",
    ),
    ErrorRow(
        "CON-0201",
        "no PTX inside",
        "The container holds machine code for NVIDIA GPUs only; Cuttle translates PTX.",
        "Rebuild with PTX (nvcc -gencode arch=compute_80,code=compute_80; PyTorch: TORCH_CUDA_ARCH_LIST=8.0+PTX), "
        "or use a build that carries it; `cuttle scan DIR` finds such files.",
    ),
    ErrorRow(
        "CON-0202",
        "cubin cannot run",
        "A cubin is machine code of one NVIDIA GPU; Cuttle translates PTX.",
        "Load the PTX of this module instead (nvcc -ptx, or a fat binary made with code=compute_XX).",
    ),
    # -- command line -------------------------------------------------------------------------------------------
    ErrorRow(
        "CLI-0001", "wrong usage", "The command line cannot be understood.", "Add --help to see what is possible."
    ),
    ErrorRow("CLI-0002", "nothing to explain", "No error or knob has this name.", "`cuttle explain` lists all codes."),
    ErrorRow("CLI-0003", "unknown field", "The query names a field that no device has.", "See `cuttle info --help`."),
    ErrorRow(
        "CLI-0101",
        "unknown option of run",
        "`cuttle run` does not know the option. Options of the program itself stand behind its name, or behind `--`.",
        "`cuttle run --help` lists the options.",
    ),
    ErrorRow(
        "CLI-0102", "option without a value", "The option needs a value behind it.", "`cuttle run --help` shows them."
    ),
    ErrorRow("CLI-0103", "no program", "`cuttle run` was not told what to run.", "Try `cuttle run -- ./program`."),
    ErrorRow(
        "CLI-0104",
        "bad value",
        "An option of `cuttle run`, or the knob that it sets, has a value that it cannot have.",
        "`cuttle run --help` shows them.",
    ),
    ErrorRow(
        "CLI-0201",
        "platform not supported",
        "Programs run on Linux on x86-64 only: the client library takes the place of NVIDIA's driver in the program's "
        "own process, so it has to exist for the program's platform.",
        "`cuttle scan` and `cuttle compile` work everywhere.",
    ),
    ErrorRow(
        "CLI-0202",
        "no client library",
        "A wheel holds the client library ready-made; in a source checkout it is built when first needed, with the "
        "ziglang package or with cc.",
        "Run `python -m cuttle.client.build` to see why it fails.",
    ),
    ErrorRow(
        "CLI-0301", "program not found", "There is no such file, or none on PATH. Exit code 127.", "Check the path."
    ),
    ErrorRow("CLI-0302", "not executable", "The file exists but may not be executed. Exit code 126.", "Try chmod +x."),
    ErrorRow(
        "CLI-0303",
        "cannot be executed",
        "The system refused to execute the file. Exit code 126.",
        "A script needs a first line such as #!/bin/sh, and its interpreter must exist.",
    ),
    ErrorRow(
        "CLI-0304",
        "no loader for 32-bit programs",
        "The program is a 32-bit one, and the system lacks what loads such programs. Exit code 126.",
        "On Debian and Ubuntu: apt-get install libc6-i386. Or build the program for x86-64.",
    ),
    ErrorRow(
        "CLI-0305",
        "program for another processor",
        "The file is an ELF or Windows program, but not for x86. Exit code 126.",
        "Use the x86-64 build of the program.",
    ),
    ErrorRow(
        "CLI-0306",
        "raised privileges",
        "The system's loader ignores LD_LIBRARY_PATH for programs that are setuid, setgid or have file capabilities, "
        "so that they would not find Cuttle. Exit code 126.",
        "Run a copy without them (cp drops them).",
    ),
    ErrorRow(
        "CLI-0307",
        "no Wine",
        "The program is a Windows one, which needs Wine on Linux, and no `wine` is on PATH. Exit code 126.",
        "On Debian and Ubuntu: apt-get install wine. For 32-bit programs Wine needs its 32-bit part (wine32).",
    ),
    ErrorRow(
        "CLI-0401",
        "device did not start",
        "A program under `cuttle run` would get an error from cuInit.",
        "`cuttle doctor` looks for the reason.",
    ),
    ErrorRow(
        "CLI-0501",
        "file cannot be read",
        "A file named on the command line is missing or unreadable.",
        "Check the path.",
    ),
    ErrorRow(
        "CLI-0504", "unknown processor", "LLVM has no 64-bit x86 processor of this name.", "Without --cpu it is this machine's; others are haswell, znver4, x86-64-v3."
    ),
    ErrorRow(
        "CLI-0502", "no such kernel", "The module holds no kernel of this name.", "The message lists those it has."
    ),
    ErrorRow(
        "CLI-0503", "bad block shape", "A block has one to three extents, at most 1024 threads.", "Try 256 or 16,16,1."
    ),
    ErrorRow("CLI-0601", "demo failed", "The demo program did not end well.", "`cuttle doctor` looks for the reason."),
    ErrorRow(
        "CLI-0602", "file cannot be written", "A file that was asked for cannot be written there.", "Name another place, with --output."
    ),
    ErrorRow(
        "CLI-0603", "the system refused", "Something that the command needs from the system failed; the message has the system's own reason.",
        "Is the disk full, or is the file or folder not yours?",
    ),
    ErrorRow(
        "CLI-0701",
        "no such check",
        "`cuttle doctor` has no check of this name.",
        "`cuttle doctor --list-checks` lists them.",
    ),
    ErrorRow(
        "CLI-0702", "finding of the doctor", "A check of `cuttle doctor` found something.", "The finding has a hint."
    ),
    # -- the RDNA emulator ---------------------------------------------------------------------------------------
    ErrorRow(
        "DEV-0101",
        "code object refused",
        "The file is no linked AMDGPU code object that the RDNA emulator executes: gfx1100 and gfx1200 with 32-wide waves.",
        "Compile for gfx1100 or gfx1200 with waves of 32 lanes, and link to an ELF shared object.",
    ),
    ErrorRow(
        "DEV-0102",
        "launch refused",
        "The launch asks for something that the kernel or the emulated GPU does not have.",
        "The message names the argument.",
    ),
    ErrorRow(
        "DEV-0103",
        "illegal instruction",
        "The emulated wave came to an instruction without meaning there, or one that the emulator does not execute.",
        "docs/reference/rdna-instructions.md lists what is executed.",
    ),
    ErrorRow(
        "DEV-0104",
        "illegal address",
        "An emulated lane accessed memory that is not allocated, LDS beyond the group's, or scratch beyond the lane's.",
        "The message names group, lane and address.",
    ),
    ErrorRow("DEV-0105", "trap", "The kernel executed s_trap.", "It stopped itself: a failed assert, or `trap` in PTX."),
    ErrorRow(
        "DEV-0106",
        "emulated waves make no progress",
        "All waves wait at barriers that cannot open, or the limit of instructions was reached.",
        "A barrier must be reached by all waves of its group. CUTTLE_TIMEOUT sets the limit of time.",
    ),
    ErrorRow(
        "DEV-0107",
        "missing wait",
        "An instruction uses a register, or a barrier is reached, before a memory operation was waited for.",
        "The code would be wrong on hardware: report it as a bug of the code generator.",
    ),
    ErrorRow(
        "DEV-0108",
        "NumPy missing",
        "The executors of emulated and of real AMD GPUs are written with NumPy, and this Python has none. `cuInit` answers CUDA_ERROR_NO_DEVICE.",
        "pip install numpy, into the environment of `cuttle`.",
    ),
    # -- AMD GPUs through HIP -----------------------------------------------------------------------------------
    ErrorRow(
        "DEV-0201",
        "HIP device not built yet",
        "An older version of Cuttle found AMD GPUs but did not run kernels on them. This version does.",
        "Update Cuttle.",
    ),
    ErrorRow(
        "DEV-0202",
        "no AMD device",
        "AMD's HIP library is missing, finds no kernel driver, or sees no GPU: the message says which.",
        "`cuttle doctor -v amd_driver hip` shows what was looked for.",
    ),
    ErrorRow(
        "DEV-0203",
        "HIP library refused",
        "The HIP library is of a major version other than 5, 6 and 7, lacks functions, writes structs of another layout, ended its process, or "
        "would be the second one in a process, which crashes.",
        "CUTTLE_HIP_LIBRARY chooses another one. `cuttle doctor -v hip` shows each that was found.",
    ),
    ErrorRow("DEV-0204", "HIP call failed", "A function of AMD's HIP library failed.", "The message has HIP's name of the error."),
    ErrorRow(
        "DEV-0205",
        "comgr failed",
        "AMD's code object manager could not be used or refused something. Cuttle only checks with it; kernels do not need it.",
        "`cuttle doctor -v comgr` shows which one was found.",
    ),
    ErrorRow(
        "DEV-0206",
        "AMD library unusable",
        "A math library of AMD's is missing, damaged, linked to another major version of HIP, or has no kernels for this GPU.",
        "`cuttle doctor -v amd_libraries` lists them.",
    ),
    ErrorRow(
        "DEV-0207",
        "no memory at the program's addresses",
        "Kernels hold addresses of the program's device memory, so the GPU's memory must lie at the same ones. This HIP library cannot do that "
        "(virtual memory management is missing or does not take the address).",
        "HIP 6 or later on Linux should; CUTTLE_HIP_LIBRARY chooses another library. CUTTLE_DEVICE=cpu works everywhere.",
    ),
    # -- self-tests ---------------------------------------------------------------------------------------------
    ErrorRow(
        "STS-0101",
        "unreadable report",
        "The file is no report of `cuttle selftest`, or says what cannot be: the message has the place.",
        "Reports are taken as they were written, not edited.",
    ),
    ErrorRow("STS-0102", "report not written", "The report of a self-test cannot be written there.", "--output names another folder."),
    ErrorRow(
        "STS-0201",
        "tests failed",
        "Tests of `cuttle selftest` gave other results than an NVIDIA GPU, or did not end well.",
        "Please send the report: it names the tests and what came out, and nobody.",
    ),
    # -- sweeps -------------------------------------------------------------------------------------------------
    ErrorRow(
        "SWP-0101",
        "unreadable recording",
        "The file of recorded results is missing, damaged, or was made for other forms or operands than this version knows.",
        "Without --golden the recordings that belong to this version are used.",
    ),
    ErrorRow(
        "SWP-0102",
        "nothing to sweep",
        "The domain does not exist, or none of its forms matches.",
        "`cuttle sweep --list` shows domains and forms.",
    ),
    ErrorRow(
        "SWP-0103",
        "package missing",
        "This kind of sweep needs a package that is not installed.",
        "For the domain `reference`: pip install numpy. For --farm: pip install distributed.",
    ),
    ErrorRow("SWP-0104", "bad choice", "A shard or a pattern cannot be understood.", "`cuttle sweep --help` shows how."),
    ErrorRow(
        "SWP-0105",
        "device did not start",
        "The worker that runs the forms found no device, or ended with it.",
        "`cuttle doctor` looks for the reason.",
    ),
    ErrorRow(
        "SWP-0106", "no cluster", "The Dask scheduler cannot be reached.", "Check the address, or use --farm local."
    ),
    ErrorRow(
        "SWP-0201",
        "results unusable",
        "The file of results cannot be used: it is no sweep's, from another version, damaged, or cannot be written.",
        "Name another file with --results, or start again with --fresh.",
    ),
    ErrorRow(
        "SWP-0202",
        "results of something else",
        "Verdicts belong to a device, a version of Cuttle and a set of recordings; those in the file are of another.",
        "Name another file with --results, or start again with --fresh.",
    ),
    ErrorRow(
        "SWP-0301",
        "forms differ",
        "Some forms did not give what their rows promise.",
        "`cuttle sweep` lists them with the first failing input; please report them.",
    ),
    # -- fallbacks for failures inside Cuttle -------------------------------------------------------------------
    ErrorRow("API-0001", "CUDA call failed", "A CUDA function could not be carried out.", "See the message."),
    ErrorRow(
        "DEV-0020",
        "unknown GPU target",
        "The AMD GPU target is none that code objects are made for, or does not go with the code object version.",
        "`cuttle info` names the GPU's target; version 4 is for HIP 5, version 5 for HIP 6 and 7, version 6 for generic targets.",
    ),
    ErrorRow(
        "DEV-0021",
        "GPU with waves of 64 lanes",
        "A CUDA warp has 32 lanes; GCN and CDNA GPUs (gfx9 and older) only have waves of 64.",
        "RX 5000 and newer cards (gfx10, gfx11, gfx12) are supported; on others use the CPU device.",
    ),
    ErrorRow(
        "DEV-0022",
        "no executor for Windows",
        "Kernels of the CPU device run in the executor, which is a Linux program. On Windows itself `cuInit` answers CUDA_ERROR_NOT_SUPPORTED.",
        "Run the program under Wine on Linux, or use `cuttle stack` for an AMD GPU.",
    ),
    ErrorRow(
        "DEV-0002",
        "executor missing",
        "The program that runs kernels on the CPU is missing, or may not be executed. `cuInit` answers CUDA_ERROR_NO_DEVICE.",
        "`python -m cuttle.client.build` builds it; if CUTTLE_EXECUTOR is set, it names another one.",
    ),
    ErrorRow("DEV-0001", "device failed", "The device (executor or GPU) failed.", "Run `cuttle doctor`."),
    *(ErrorRow(*row) for row in STACK_ERRORS),
)
