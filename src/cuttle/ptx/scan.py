"""What device code a file or folder carries, and whether Cuttle can run it.

`scan_path` looks into ELF and PE programs and libraries, objects, static archives, fat binaries, cubins and PTX files.
Files are mapped, not read; other files are passed over after their first bytes.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field

from cuttle.errors import CuttleError, error_row
from cuttle.ptx.body import opcode_spellings
from cuttle.ptx.containers import archive, elf, fatbin, image, pe
from cuttle.ptx.containers.choose import choose_ptx
from cuttle.ptx.containers.fatbin import Fatbin, FatbinEntry
from cuttle.ptx.containers.recognise import Kind, recognise
from cuttle.ptx.opcode_roots import split_opcode
from cuttle.ptx.parser import index_module

# (root, modifiers) -> why Cuttle cannot translate it, or None.
Unsupported = Callable[[str, tuple[str, ...]], str | None]

_ENTRY_NAME = re.compile(rb"\.entry\s+([%$A-Za-z_][\w$]*)")
_CUDA_LIBRARY = re.compile(
    r"(?:lib)?(?:cuda|cudart|cublas|cublasLt|cufft|cufftw|curand|cusparse|cusparseLt|cusolver|cusolverMg|cudnn\w*|nccl"
    r"|nvrtc|nvrtc-builtins|nvJitLink|nvvm|nvjpeg|nvidia-ml|nvml|npp\w*|cutensor\w*|cupti|nvToolsExt|nvinfer\w*|nvcuda"
    r"|nvcuvid|nvidia-encode|nvfatbin|nvblas|cufile|nvshmem\w*)(?:\d*_\w+|32|64)?(?:\.so(?:\.[\d.]+)?|\.dll)\Z",
    re.IGNORECASE,
)
_HEAD_BYTES = 4096
MAX_NAMES = 100_000
MAX_TEXT_CHECKED = 64 << 20


@dataclass(slots=True)
class DeviceCode:
    """All code of one kind and target in a file. `kind`: `ptx`, `cubin`, `kind-N`."""

    kind: str
    target: str
    version: str
    compression: str
    entries: int = 0
    stored_bytes: int = 0


@dataclass(slots=True)
class UnsupportedUse:
    """An instruction that Cuttle cannot translate, why, and functions that use it (first few)."""

    instruction: str
    reason: str
    functions: int
    examples: list[str]


@dataclass(slots=True)
class ScanFile:
    """One file that carries device code or links CUDA libraries.

    `verdict`: `runs` (all kernels have PTX), `partly` (some have), `machine code only`, `libraries only` (no device
    code, but links CUDA libraries), `damaged`.
    """

    path: str
    format: str
    bytes: int
    code: list[DeviceCode] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    kernels_without_ptx: list[str] = field(default_factory=list)
    libraries: list[str] = field(default_factory=list)
    unsupported: list[UnsupportedUse] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    verdict: str = ""
    hint: str = ""


@dataclass(slots=True)
class ScanReport:
    """The result of a scan. `as_json()` gives plain dicts and lists."""

    root: str
    files: list[ScanFile] = field(default_factory=list)
    files_seen: int = 0
    bytes_seen: int = 0
    unreadable: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def scan_path(
    path: str | os.PathLike[str],
    unsupported: Unsupported | None = None,
    compute_capability: tuple[int, int] = (8, 0),
    progress: Callable[[str], None] | None = None,
) -> ScanReport:
    """Scan a file or a folder tree. Damaged or unreadable files are reported, they raise nothing.

    `unsupported` is asked once per instruction form in the PTX that would be chosen for `compute_capability`;
    `progress` is told each file's path.
    """
    root = os.fspath(path)
    report = ScanReport(root)
    names: Iterable[str] = _files_below(root, report) if os.path.isdir(root) else [root]
    for name in names:
        if progress is not None:
            progress(name)
        try:
            size = os.path.getsize(name)
            report.files_seen += 1
            report.bytes_seen += size
            found = _scan_file(name, size, unsupported, compute_capability)
        except OSError as error:
            report.unreadable.append(f"{name}: {error.strerror or error}")
            continue
        if found is not None:
            report.files.append(found)
    return report


def _files_below(root: str, report: ScanReport) -> Iterator[str]:
    """Regular files, each once: links are not followed."""

    def unreadable(error: OSError) -> None:
        report.unreadable.append(f"{error.filename}: {error.strerror}")

    for folder, folders, files in os.walk(root, onerror=unreadable):
        folders.sort()
        for name in sorted(files):
            full = os.path.join(folder, name)
            if os.path.isfile(full) and not os.path.islink(full):
                yield full


def _scan_file(
    path: str, size: int, unsupported: Unsupported | None, compute_capability: tuple[int, int]
) -> ScanFile | None:
    if size < 16:
        return None
    with open(path, "rb") as stream:
        head = stream.read(_HEAD_BYTES)
        kind = recognise(head)
        if kind is Kind.UNKNOWN and (path.endswith(".ptx") or b".version" in head):
            kind = recognise(head + stream.read(65536 - _HEAD_BYTES))
        if kind is Kind.UNKNOWN:
            return None
        # The map lives as long as views into it do; it is never closed by hand.
        data = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    scanner = _FileScanner(ScanFile(path, kind.value, size), unsupported, compute_capability)
    scanner.scan(data, kind)
    return scanner.finish()


def scan_bytes(
    data: bytes, name: str, unsupported: Unsupported | None = None, compute_capability: tuple[int, int] = (8, 0)
) -> ScanFile | None:
    """The same for bytes in memory."""
    kind = recognise(data)
    if kind is Kind.UNKNOWN:
        return None
    scanner = _FileScanner(ScanFile(name, kind.value, len(data)), unsupported, compute_capability)
    scanner.scan(memoryview(data), kind)
    return scanner.finish()


class _FileScanner:
    """Collects what one file carries."""

    def __init__(self, found: ScanFile, unsupported: Unsupported | None, compute_capability: tuple[int, int]) -> None:
        self.found = found
        self.unsupported = unsupported
        self.compute_capability = compute_capability
        self.code: dict[tuple[str, str, str, str], DeviceCode] = {}
        self.ptx_kernels: dict[str, None] = {}
        self.machine_kernels: dict[str, None] = {}
        self.uses: dict[str, UnsupportedUse] = {}
        self.answers: dict[str, str | None] = {}
        self.damaged = False

    def scan(self, data: memoryview, kind: Kind) -> None:
        """Look into `data`; damage becomes a note."""
        try:
            self._look(data, kind)
        except CuttleError as error:
            self.damaged = True
            self.found.notes.append(f"{error.code}: {error.message}")

    def _look(self, data: memoryview, kind: Kind) -> None:
        if kind is Kind.HOST_ELF:
            headers = elf.read_elf(data)
            self.found.libraries.extend(n for n in elf.needed_libraries(data, headers) if _CUDA_LIBRARY.match(n))
            for section in elf.fatbin_sections(data, headers):
                self._fatbins(section)
        elif kind is Kind.PE:
            program = pe.read_pe(data)
            self.found.libraries.extend(n for n in pe.imported_libraries(data, program) if _CUDA_LIBRARY.match(n))
            for section in pe.fatbin_sections(data, program):
                self._fatbins(section)
        elif kind is Kind.FATBIN:
            self._fatbins(data)
        elif kind is Kind.CUBIN:
            headers = elf.read_elf(data)
            self._count("cubin", f"sm_{headers.architecture}", "", "none", len(data))
            self._machine_names(data)
        elif kind is Kind.PTX or kind is Kind.IMAGE:
            text = image.unpack_image(data) if kind is Kind.IMAGE else bytes(data[: MAX_TEXT_CHECKED + 1])
            self._ptx_file(text)
        elif kind is Kind.ARCHIVE and data[:8] == archive.MAGIC:
            for member in archive.members(data):
                inner = recognise(member.data)
                if inner not in (Kind.UNKNOWN, Kind.ARCHIVE):
                    self.scan(member.data, inner)
        elif kind is Kind.OLD_FATBIN:
            self.found.notes.append("fat binary of CUDA 3 or older: not readable")

    def _count(self, kind: str, target: str, version: str, compression: str, stored_bytes: int) -> None:
        key = (kind, target, version, compression)
        code = self.code.setdefault(key, DeviceCode(*key))
        code.entries += 1
        code.stored_bytes += stored_bytes

    def _fatbins(self, section: memoryview) -> None:
        for part in fatbin.read_fatbins(section):
            for entry in part.entries:
                version = f"{entry.version[0]}.{entry.version[1]}" if entry.kind == "ptx" else ""
                self._count(entry.kind, entry.target, version, entry.compression, len(entry.stored))
            try:
                self._names(part)
            except CuttleError as error:
                self.damaged = True
                self.found.notes.append(f"{error.code}: {error.message}")

    def _names(self, part: Fatbin) -> None:
        """Kernel names of one fat binary: of the PTX that would be chosen, and of one cubin."""
        cubin = next((entry for entry in part.entries if entry.kind == "cubin"), None)
        if cubin is not None:
            self._machine_names(memoryview(cubin.payload()))
        ptx = [entry for entry in part.entries if entry.kind == "ptx"]
        if ptx:
            self._ptx_entry(ptx)

    def _ptx_entry(self, entries: list[FatbinEntry]) -> None:
        choice = choose_ptx(entries, self.compute_capability)
        text = choice.entry.payload()
        self._ptx_names(text)
        self._check_instructions(text)
        if choice.exceeds_device:
            note = f"{choice.reason}; Cuttle runs it all the same"
            if note not in self.found.notes:
                self.found.notes.append(note)

    def _ptx_file(self, text: bytes) -> None:
        target = re.search(rb"\.target\s+sm_(\w+)", text)
        version = re.search(rb"\.version\s+([\d.]+)", text)
        self._count(
            "ptx", f"compute_{target[1].decode() if target else '?'}", version[1].decode() if version else "", "none",
            len(text),
        )  # fmt: skip
        self._ptx_names(text)
        self._check_instructions(text)

    def _ptx_names(self, text: bytes) -> None:
        for match in _ENTRY_NAME.finditer(text):
            if len(self.ptx_kernels) < MAX_NAMES:
                self.ptx_kernels[match[1].decode()] = None

    def _machine_names(self, data: memoryview) -> None:
        if recognise(data) is not Kind.CUBIN:
            return
        for kernel in elf.cubin_kernels(data, elf.read_elf(data)):
            if len(self.machine_kernels) < MAX_NAMES:
                self.machine_kernels[kernel.name] = None

    def _check_instructions(self, text: bytes) -> None:
        """Ask `unsupported` for each instruction form, and note in which functions refused ones stand."""
        if self.unsupported is None or len(text) > MAX_TEXT_CHECKED:
            return
        index = index_module(text, self.found.path)
        for name, function in index.functions.items():
            if not function.is_defined:
                continue
            for spelling in opcode_spellings(index.source.text, function.body_start, function.body_end):
                reason = self._reason(spelling)
                if reason is None:
                    continue
                use = self.uses.setdefault(spelling, UnsupportedUse(spelling, reason, 0, []))
                use.functions += 1
                if len(use.examples) < 5:
                    use.examples.append(name)

    def _reason(self, spelling: str) -> str | None:
        if spelling not in self.answers:
            parts = split_opcode(spelling)
            if parts is None:
                self.answers[spelling] = "unknown instruction"
            else:
                assert self.unsupported is not None
                self.answers[spelling] = self.unsupported(parts[0], parts[1])
        return self.answers[spelling]

    # -- verdict ------------------------------------------------------------------------------------------------

    def finish(self) -> ScanFile | None:
        """The result, or None if the file has nothing to do with CUDA."""
        found = self.found
        found.code = sorted(self.code.values(), key=lambda c: (c.kind != "ptx", c.kind, c.target))
        found.kernels = sorted(self.ptx_kernels | self.machine_kernels)
        if not self.code and not found.libraries and not self.damaged:
            return None if found.format not in (Kind.OLD_FATBIN.value, Kind.PTX.value) else found
        found.kernels_without_ptx = sorted(self.machine_kernels.keys() - self.ptx_kernels.keys())
        found.unsupported = sorted(self.uses.values(), key=lambda use: use.instruction)
        has_ptx = any(code.kind == "ptx" for code in found.code)
        if not found.code:
            found.verdict = "damaged" if self.damaged else "libraries only"
            if self.damaged:
                found.hint = "The file may be cut off; compare it with the original."
        elif not has_ptx and (found.kernels or not self.damaged):
            found.verdict = "machine code only"
            row = error_row("CON-0201")
            found.hint = row.hint if row else ""
        elif self.damaged and not self.ptx_kernels:
            found.verdict = "damaged"
            found.hint = "The file may be cut off; compare it with the original."
        elif found.kernels_without_ptx:
            found.verdict = "partly"
            found.hint = (
                f"{len(found.kernels_without_ptx)} of {len(found.kernels)} kernels exist as machine code only; "
                "programs that need them must be rebuilt with PTX (nvcc -gencode arch=compute_80,code=compute_80)."
            )
        else:
            found.verdict = "runs"
        if found.unsupported and found.verdict in ("runs", "partly"):
            found.verdict = "partly"
            found.hint = (
                found.hint + " " if found.hint else ""
            ) + "Kernels with the unsupported instructions listed fail when launched; the others run."
        return found
