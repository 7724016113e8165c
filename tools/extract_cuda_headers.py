"""Reads NVIDIA's public CUDA headers and writes the fact rows of `abi/` (names, types, numbers; no header text is kept).

Run by hand when a new toolkit appears, needs `pycparser` and a C preprocessor:

    python tools/extract_cuda_headers.py INCLUDE_DIRECTORY

Routes of functions that have a row already are kept.
"""

from __future__ import annotations

import collections
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from pycparser import c_ast, c_generator, c_parser

ROOT = Path(__file__).resolve().parent.parent
ABI = ROOT / "src" / "cuttle" / "abi"
FAKE = {
    "stdlib.h": "typedef unsigned long size_t;\n#define NULL 0\n",
    "stdint.h": "typedef unsigned int uint32_t; typedef unsigned long uint64_t; typedef unsigned short uint16_t;"
    " typedef unsigned char uint8_t; typedef int int32_t; typedef long int64_t;\n",
    "GL/gl.h": "typedef unsigned int GLuint; typedef unsigned int GLenum;\n",
    "EGL/egl.h": "typedef int EGLint; typedef void *EGLImageKHR; typedef void *EGLStreamKHR; typedef void *EGLSyncKHR;\n",
    "EGL/eglext.h": "",
    "vdpau/vdpau.h": "typedef unsigned VdpDevice; typedef unsigned VdpVideoSurface; typedef unsigned VdpOutputSurface;"
    " typedef void VdpGetProcAddress(void);\n",
    "all.h": "#include <vdpau/vdpau.h>\n"
    + "".join(f"#include <{name}.h>\n" for name in ("cuda", "cudaGL", "cudaEGL", "cudaVDPAU"))
    + "CUresult cuProfilerStart(void); CUresult cuProfilerStop(void);\n",  # their header is not in the wheels
}
NOUNS = (
    ("device", r"cuDevice(?!PrimaryCtx)|cuInit|cuDriver|cuGetProcAddress|cuGetExportTable|cuGetError|cuFlush"),
    ("context", r"cuCtx|cuDevicePrimaryCtx|cuGreenCtx|cuCoredump|cuProfiler|cuLog|cuCheckpoint"),
    ("module", r"cuModule|cuLibrary|cuKernel|cuLink"),
    ("launch", r"cuLaunch|cuFunc|cuParam|cuOccupancy"),
    ("memory", r"cuMem(?!Pool|AllocAsync|AllocFromPool|FreeAsync)|cuPointer|cuIpc|cuArray|cuMipmapped|cuMulticast"),
    ("pool", r"cuMemPool|cuMemAllocAsync|cuMemAllocFromPool|cuMemFreeAsync"),
    ("stream", r"cuStream|cuEvent|cuThread|cuUserObject"),
    ("graph", r"cuGraph(?!ics)"),
    ("texture", r"cuTex|cuSurf|cuTensorMap"),
    ("interop", r".*"),
)


def preprocess(include: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FAKE.items():
            Path(folder, name).parent.mkdir(exist_ok=True)
            Path(folder, name).write_text(text)
        command = ["gcc", "-E", "-P", "-nostdinc", "-D__CUDA_API_VERSION_INTERNAL", "-D__attribute__(x)=", "-D__extension__=",
                   "-D__inline__=inline", "-D_Alignas(x)=", f"-I{folder}", f"-I{include}", f"{folder}/all.h"]  # fmt: skip
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def versions(include: Path) -> dict[tuple[str, str], list[int]]:
    """(base name, "" or "_ptsz"/"_ptds") → versions in ascending order."""
    found: dict[tuple[str, str], list[int]] = collections.defaultdict(list)
    for header in (
        "cudaTypedefs.h",
        "cudaProfilerTypedefs.h",
        "cudaGLTypedefs.h",
        "cudaEGLTypedefs.h",
        "cudaVDPAUTypedefs.h",
    ):
        for name, number, suffix in re.findall(
            r"\*\s*PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)", (include / header).read_text()
        ):
            found[name, suffix].append(int(number))
    return {key: sorted(set(value)) for key, value in found.items()}


def split_name(name: str) -> tuple[str, int, str]:
    suffix = ""
    if match := re.fullmatch(r"(.*?)(_ptsz|_ptds)", name):
        name, suffix = match[1], match[2]
    number = 1
    if match := re.fullmatch(r"(.*?)_v(\d+)", name):
        name, number = match[1], int(match[2])
    return name, number, suffix


def squeeze(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


class Facts:
    def __init__(self, text: str) -> None:
        self.generator = c_generator.CGenerator()
        self.functions: dict[str, str] = {}
        self.enums: dict[str, list[tuple[str, int]]] = {}
        self.structs: list[str] = []
        self.values: dict[str, int] = {}
        tree = c_parser.CParser().parse(text)
        for node in tree.ext:
            if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl) and node.name.startswith("cu"):
                args = node.type.args
                self.functions[node.name] = squeeze(self.generator.visit(args)) if args else "void"
            elif isinstance(node, c_ast.Typedef):
                self.typedef(node)
            elif isinstance(node, c_ast.Decl):
                self.other(node)

    def evaluate(self, node: c_ast.Node) -> int:
        text = self.generator.visit(node)
        text = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
        text = re.sub(r"\b0+(\d)", r"\1", text) if not re.search(r"0[xX]", text) else text
        return int(eval(text, {}, dict(self.values)))  # constant expressions of a header

    def enum(self, name: str, node: c_ast.Enum) -> None:
        rows: list[tuple[str, int]] = []
        following = 0
        for item in node.values.enumerators:
            value = self.evaluate(item.value) if item.value is not None else following
            self.values[item.name] = value
            rows.append((item.name, value))
            following = value + 1
        self.enums[name] = rows

    def typedef(self, node: c_ast.Typedef) -> None:
        inner = node.type.type if isinstance(node.type, c_ast.TypeDecl) else None
        if isinstance(inner, c_ast.Enum) and inner.values:
            self.enum(node.name, inner)
            return
        if not node.name.startswith(("CU", "cu")):
            return
        for child in self.nested_enums(node):
            self.enum(child.name or f"{node.name}_anonymous", child)
        self.structs.append(squeeze(self.generator.visit(node)))

    def nested_enums(self, node: c_ast.Node) -> list[c_ast.Enum]:
        found = [node] if isinstance(node, c_ast.Enum) and node.values else []
        for _, child in node.children():
            found += self.nested_enums(child)
        return found

    def other(self, node: c_ast.Decl) -> None:
        if isinstance(node.type, c_ast.Enum) and node.type.values:
            self.enum(node.type.name, node.type)
        elif isinstance(node.type, (c_ast.Struct, c_ast.Union)):
            self.structs.append(squeeze(self.generator.visit(node)))


def defines(include: Path, values: dict[str, int]) -> list[tuple[str, int]]:
    rows = []
    for name, text in re.findall(
        r"^#define\s+(CU_\w+|CUDA_\w+)\s+(.+?)\s*(?:/\*.*)?$", (include / "cuda.h").read_text(), re.M
    ):
        text = re.sub(r"\(\(\w+\)\s*(\w+)\)", r"\1", text)
        text = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
        try:
            number = int(eval(text, {}, dict(values)))  # constant expressions of a header
        except Exception:
            continue
        values[name] = number
        rows.append((name, number))
    return rows


def old_routes() -> dict[str, str]:
    routes: dict[str, str] = {}
    for path in sorted((ABI / "cuda").glob("*.py")):
        routes.update(re.findall(r'^    F\("(\w+)", "\w+", \d+, "\w*", \d+, "(\w+)",$', path.read_text(), re.M))
    return routes


def write_functions(facts: Facts, since: dict[tuple[str, str], list[int]]) -> None:
    ordinals: dict[tuple[str, str], list[int]] = collections.defaultdict(list)
    for name in facts.functions:
        base, number, suffix = split_name(name)
        ordinals[base, suffix].append(number)
    routes = old_routes()
    pages: dict[str, list[str]] = collections.defaultdict(list)

    def version_of(base: str, number: int, suffix: str) -> int:
        numbers = sorted(ordinals[base, suffix])
        known = since.get((base, suffix), [])
        return known[numbers.index(number)] if len(known) == len(numbers) else 0

    for name, arguments in sorted(facts.functions.items(), key=lambda item: split_name(item[0])):
        base, number, suffix = split_name(name)
        if suffix:
            continue
        per_thread = ""
        per_thread_version = 0
        for candidate in ("_ptsz", "_ptds"):
            if name + candidate in facts.functions:
                per_thread = candidate
                per_thread_version = version_of(base, number, candidate)
        noun = next(noun for noun, pattern in NOUNS if re.match(pattern, base))
        row = f'    F("{name}", "{base}", {version_of(base, number, "")}, "{per_thread}", {per_thread_version},'
        row += f' "{routes.get(name, "todo")}",'
        declaration = f'"{arguments}"'
        pages[noun].append(f"{row}\n      {declaration}),")
    folder = ABI / "cuda"
    folder.mkdir(exist_ok=True)
    for noun, rows in pages.items():
        lines = [
            f'"""Driver functions: {noun}. Rows written by `tools/extract_cuda_headers.py`; routes are kept by hand."""',
            "",
            "# ruff: noqa: E501",
            "",
            "from cuttle.abi.cuda.row import F, Function",
            "",
            "FUNCTIONS: tuple[Function, ...] = (",
            *rows,
            ")  # fmt: skip",
            "",
        ]
        (folder / f"{noun}.py").write_text("\n".join(lines))


def write_enums(facts: Facts, constants: list[tuple[str, int]]) -> None:
    lines = [
        '"""Enumerations and constants of the CUDA driver interface, from `tools/extract_cuda_headers.py`."""',
        "",
        "# ruff: noqa: E501",
        "",
        "ENUMS: dict[str, tuple[tuple[str, int], ...]] = {",
    ]
    for name, rows in facts.enums.items():
        lines.append(f'    "{name}": (')
        lines += [f'        ("{item}", {value}),' for item, value in rows]
        lines.append("    ),")
    lines += ["}", "", "CONSTANTS: tuple[tuple[str, int], ...] = ("]
    lines += [f'    ("{name}", {value}),' for name, value in constants]
    lines += [")", ""]
    (ABI / "cuda_enums.py").write_text("\n".join(lines))


def write_structs(facts: Facts) -> None:
    lines = [
        '"""Types of the CUDA driver interface as C declarations, in order of dependence, from `tools/extract_cuda_headers.py`."""',
        "",
        "# ruff: noqa: E501",
        "",
        "TYPES: tuple[str, ...] = (",
    ]
    lines += [f'    "{text}",' for text in facts.structs]
    lines += [")", ""]
    (ABI / "cuda_structs.py").write_text("\n".join(lines))


def write_errors(facts: Facts) -> None:
    """Names and numbers only; the texts of cuGetErrorString are our own words and kept in the file."""
    path = ABI / "cuda_errors.py"
    texts: dict[str, str] = {}
    if path.exists():
        texts = dict(re.findall(r'^    \(\d+, "(\w+)", "(.*)"\),', path.read_text(), re.M))
    lines = ['"""CUresult numbers, names, and the texts that cuGetErrorString gives."""', "", "# ruff: noqa: E501", ""]
    lines += ["ERRORS: tuple[tuple[int, str, str], ...] = ("]
    for name, value in facts.enums["CUresult"]:
        plain = name.removeprefix("CUDA_ERROR_").removeprefix("CUDA_").replace("_", " ").lower()
        lines.append(f'    ({value}, "{name}", "{texts.get(name, plain)}"),')
    lines += [")", "", *(f"{name} = {value}" for name, value in facts.enums["CUresult"]), ""]
    path.write_text("\n".join(lines))


def main() -> int:
    include = Path(sys.argv[1])
    facts = Facts(preprocess(include))
    constants = defines(include, dict(facts.values))
    write_functions(facts, versions(include))
    write_enums(facts, constants)
    write_structs(facts)
    write_errors(facts)
    print(len(facts.functions), "functions", len(facts.enums), "enums", len(facts.structs), "types")
    return 0


if __name__ == "__main__":
    sys.exit(main())
