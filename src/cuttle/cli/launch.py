"""`cuttle run [options] -- program args`: sets the environment and becomes the program.

Parsed by hand and without click, because every millisecond here is added to every program. The program replaces this
process, so its exit code, signals, terminal and output are its own by construction.
"""

from __future__ import annotations

import os
import stat
import sys

from cuttle.cli import environment, program_kind

FAILED, NOT_RUNNABLE, NOT_FOUND = 125, 126, 127

FLAGS = {"--prefer-ours": "prefer-ours", "--trace": "CUTTLE_TRACE"}

# Option → knob.
KNOB_OPTIONS = {
    "--threads": "CUTTLE_THREADS",
    "--memory": "CUTTLE_MEMORY",
    "--compute-capability": "CUTTLE_COMPUTE_CAPABILITY",
    "--driver-version": "CUTTLE_DRIVER_VERSION",
    "--timeout": "CUTTLE_TIMEOUT",
    "--cache-dir": "CUTTLE_CACHE_DIR",
}

HELP = """\
Usage: cuttle run [OPTIONS] [--] PROGRAM [ARGUMENTS]...

  Run a CUDA program without an NVIDIA GPU. The program is not changed; its
  output, exit code and signals are passed through untouched. Windows programs
  (.exe) run under Wine.

Options:
  --device NAME               device to run on: cpu; hip, hip:N (AMD GPUs); rdna:gfx1100, rdna:gfx1200
                              (emulated AMD GPUs, slow)
  --threads N                 threads that run kernels (default: all cores)
  --memory SIZE               memory of the device, such as 4G (default: a part of the machine's)
  --compute-capability X.Y    what the device says it is (default: 8.0)
  --driver-version X.Y        CUDA version of the driver (default: 13.0)
  --timeout SECONDS           stop a kernel that runs longer (default: never)
  --cache-dir FOLDER          where compiled kernels are kept
  --prefer-ours               win over a libcuda.so.1 that the program brings along
  --trace                     say on stderr what the program asks for that is not supported
  -h, --help                  this page

Exit codes: the program's own; 125 Cuttle failed, 126 the program cannot be run, 127 it was not found.
"""


class Refusal(Exception):
    """Cuttle cannot start the program: exit code, error code, message, hint."""

    def __init__(self, exit_code: int, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.code = code
        self.message = message
        self.hint = hint

    def render(self) -> str:
        from cuttle.errors import visible

        text = f"error[{self.code}]: {self.message}\n"
        return visible(text + f"  hint: {self.hint}\n" if self.hint else text)


def main(arguments: list[str]) -> int:
    """Become the program. Returns only if Cuttle failed, or after printing the help page."""
    try:
        settings, command = parse(arguments)
        if "help" in settings:
            return print_help()
        return start(settings, command)
    except Refusal as refusal:
        sys.stderr.write(refusal.render())
        return refusal.exit_code


def print_help() -> int:
    if sys.stdout is None:  # closed by whoever started this
        return 0
    try:
        sys.stdout.write(HELP)
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = None  # nothing may be flushed into the closed pipe at exit
        return 141
    except OSError as error:
        sys.stdout = None
        raise Refusal(FAILED, "CLI-0603", f"standard output: {error.strerror}") from None
    return 0


def parse(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """(knob or flag → value, command line of the program). The first argument that is no option begins the program."""
    settings: dict[str, str] = {}
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        if argument == "--":
            position += 1
            break
        if not argument.startswith("-") or argument == "-":
            break
        position += 1
        if argument in ("-h", "--help"):
            return {"help": "1"}, []
        if argument in FLAGS:
            settings[FLAGS[argument]] = "1"
            continue
        name, equals, value = argument.partition("=")
        if name != "--device" and name not in KNOB_OPTIONS:
            raise Refusal(
                FAILED, "CLI-0101", f"`cuttle run` has no option {name}", "`cuttle run --help` lists the options."
            )
        if not equals:
            if position == len(arguments) or arguments[position] == "--":
                raise Refusal(FAILED, "CLI-0102", f"{name} needs a value", "`cuttle run --help` lists the options.")
            value = arguments[position]
            position += 1
        if name == "--device":
            settings["CUTTLE_DEVICE"] = checked_device(value)
        else:
            settings[KNOB_OPTIONS[name]] = checked(name, value)
    command = arguments[position:]
    if not command:
        raise Refusal(FAILED, "CLI-0103", "no program was named", "Try `cuttle run -- ./program`, or `cuttle demo`.")
    return settings, command


def checked_device(name: str) -> str:
    from cuttle.abi.knobs import DEVICE, KnobError

    try:
        return DEVICE.choice({DEVICE.name: name})
    except KnobError:
        raise Refusal(
            FAILED, "CLI-0104", f"there is no device {name}", f"Devices: {', '.join(DEVICE.choices)}."
        ) from None


def checked(option: str, value: str) -> str:
    """The value of an option, refused here if the device process would refuse it."""
    from cuttle.abi import knobs

    row = next(row for row in knobs.KNOBS if row.name == KNOB_OPTIONS[option])
    try:
        row.check({row.name: value})
    except knobs.KnobError as error:
        _, _, reason = str(error).partition(": ")
        raise Refusal(FAILED, "CLI-0104", f"{option} {value}: {reason}", f"`cuttle explain {row.name}`") from None
    return value


def start(settings: dict[str, str], command: list[str]) -> int:
    problem = environment.platform_problem()
    if problem:
        raise Refusal(FAILED, "CLI-0201", problem, "`cuttle scan` and `cuttle compile` work everywhere.")
    path = find_program(command[0])
    note = check_program(path)
    if note:
        from cuttle.errors import visible

        sys.stderr.write(visible(f"cuttle: note: {note}\n"))
    kind = program_kind.kind_of(program_kind.read_head(path)) or program_kind.NATIVE
    if program_kind.is_windows(kind):
        wine = program_kind.find_wine(os.environ.get("PATH", os.defpath))
        if wine is None:
            raise Refusal(
                NOT_RUNNABLE,
                "CLI-0307",
                f"{path} is a Windows program, and there is no `wine` on PATH",
                "On Debian and Ubuntu: apt-get install wine",
            )
        path, command = wine, ["wine", path, *command[1:]]
    # A Windows program or a 32-bit one may start a native one, such as the device process' own executor.
    for needed in dict.fromkeys((program_kind.NATIVE, kind)):
        if not os.path.exists(program_kind.library_path(needed)):
            build_client(needed)
    variables = initial_environment()
    variables.update((name, value) for name, value in settings.items() if name.startswith("CUTTLE_"))
    variables.update(environment.client_variables(variables, prefer_ours="prefer-ours" in settings))
    variables.update(program_kind.variables(kind, variables))
    # Python ignores SIGPIPE, and ignored signals survive exec: `cuttle run -- program | head` would not end.
    import signal

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # closed by whoever started this: the program finds it so
            stream.flush()
    try:
        os.execve(path, command, variables)
    except OSError as error:
        raise Refusal(
            NOT_RUNNABLE,
            "CLI-0303",
            f"{path}: {error.strerror}",
            "A script needs a first line such as #!/bin/sh, and its interpreter must exist.",
        ) from None


def initial_environment() -> dict[str, str]:
    """The environment as the user made it: Python itself may have added LC_CTYPE (PEP 538)."""
    variables = dict(os.environ)
    if variables.get("LC_CTYPE") in ("C.UTF-8", "C.utf8", "UTF-8"):
        try:
            with open("/proc/self/environ", "rb") as file:
                if b"\0LC_CTYPE=" not in b"\0" + file.read():
                    del variables["LC_CTYPE"]
        except OSError:
            pass
    return variables


def find_program(name: str) -> str:
    """Path of the program as a shell would find it, with the nvidia-smi stand-in first on PATH."""
    if "/" in name:
        if not os.path.lexists(name):
            raise Refusal(NOT_FOUND, "CLI-0301", f"{name}: no such file")
        if os.path.isdir(name):
            raise Refusal(NOT_RUNNABLE, "CLI-0302", f"{name} is a folder, not a program")
        if not os.path.exists(name):
            raise Refusal(NOT_FOUND, "CLI-0301", f"{name} is a link to a file that does not exist")
        if not os.access(name, os.X_OK) and not is_windows_program(name):
            raise Refusal(NOT_RUNNABLE, "CLI-0302", f"{name} is not executable", f"Try chmod +x {name}")
        return name
    for folder in (environment.PROGRAM_FOLDER, *os.get_exec_path()):
        path = f"{folder or '.'}/{name}"
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    here = f"A file of this name is in the current folder: ./{name}" if os.path.isfile(name) else ""
    raise Refusal(NOT_FOUND, "CLI-0301", f"{name}: no such program on PATH", here)


def is_windows_program(path: str) -> bool:
    """Windows has no mark for what can be executed: its programs often come without one."""
    return program_kind.is_windows(program_kind.kind_of(program_kind.read_head(path)))


def check_program(path: str) -> str:
    """Refuse what cannot work; a returned text is a remark on what will hardly do what the user wants."""
    status = os.stat(path)
    other_user = status.st_mode & stat.S_ISUID and status.st_uid != os.getuid()
    other_group = status.st_mode & stat.S_ISGID and status.st_gid != os.getgid()
    if other_user or other_group or has_capabilities(path):
        raise Refusal(
            NOT_RUNNABLE,
            "CLI-0306",
            f"{path} runs with raised privileges (setuid, setgid or file capabilities)",
            "The system's loader ignores LD_LIBRARY_PATH then. Run a copy without them: cp PROGRAM /tmp && cuttle run ...",
        )
    head = program_kind.read_head(path)
    kind = program_kind.kind_of(head)
    if kind == "linux-i386" and not os.path.exists(program_kind.LOADER_32):
        raise Refusal(
            NOT_RUNNABLE,
            "CLI-0304",
            f"{path} is a 32-bit program, and this system has no loader for them ({program_kind.LOADER_32})",
            "On Debian and Ubuntu: apt-get install libc6-i386",
        )
    if kind.startswith("other "):
        raise Refusal(
            NOT_RUNNABLE,
            "CLI-0305",
            f"{path} is a program for another processor (machine {kind[6:]} in its header), not for x86",
            "Use the x86-64 build of the program.",
        )
    if kind != program_kind.NATIVE:
        return ""  # a script, or something that exec refuses with its own reason; and other kinds
    if not has_interpreter(head):
        return (
            f"{path} is linked statically and loads no shared libraries, so it will find no CUDA driver at all "
            "(static cudart is fine; a static libc is not)"
        )
    return ""


def has_interpreter(head: bytes) -> bool:
    """Whether an ELF64 file names a dynamic loader (PT_INTERP). Unknown counts as yes."""
    offset = int.from_bytes(head[32:40], "little")
    size = int.from_bytes(head[54:56], "little")
    count = int.from_bytes(head[56:58], "little")
    if offset + size * count > len(head) or size < 56:
        return True
    return any(int.from_bytes(head[at : at + 4], "little") == 3 for at in range(offset, offset + size * count, size))


def has_capabilities(path: str) -> bool:
    try:
        return os.getuid() != 0 and bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False


def build_client(kind: str) -> None:
    """A client library that is not there yet is built: once, and said so."""
    import subprocess

    sys.stderr.write("cuttle: building the client library (once)\n")
    names = [] if kind == program_kind.NATIVE else [kind]
    done = subprocess.run([sys.executable, "-m", "cuttle.client.build", *names], stdout=sys.stderr, check=False)
    if done.returncode or not os.path.exists(program_kind.library_path(kind)):
        compiler = (
            "`pip install ziglang`, or a C compiler named cc"
            if kind == program_kind.NATIVE
            else "`pip install ziglang`"
        )
        raise Refusal(
            FAILED,
            "CLI-0202",
            f"the client library {program_kind.library_path(kind)} is missing and could not be built",
            f"Run `{' '.join(['python -m cuttle.client.build', *names])}` to see why; it needs {compiler}.",
        )
