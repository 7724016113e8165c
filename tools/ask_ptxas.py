"""Asks ptxas which of the forms in `ptxas_grammar.py` it takes, and writes the accepted ones to a packed file.

    python tools/ask_ptxas.py [--ptxas PATH] [--only REGULAR-EXPRESSION] [--print]

All candidates of a batch stand in one kernel that also holds an error of its own, so that ptxas only checks them and
never gets to generating code; those that pass are compiled, in smaller batches. 180,000 candidates take a few minutes. The result,
`src/cuttle/sweep/recordings/accepted_ptx.xz`, is text: a line `# ptxas version`, then `TARGET INDEX SPELLING` per line, where
TARGET is `80` (taken for sm_80 and later) or `90`, and INDEX says with which of its `statements`. `tests/ops/test_coverage.py` holds the rows against it.
"""

from __future__ import annotations

import argparse
import lzma
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from cuttle.abi.ptx_isa import OPCODES  # noqa: E402  (the path is set above, so that it runs from a plain checkout)
from cuttle.abi.ptx_isa.row import Opcode  # noqa: E402
from cuttle.abi.ptx_isa.syntax import expand_all  # noqa: E402
from cuttle.lower.ops import matrix_forms  # noqa: E402
from cuttle.lower.ops.dispatch import WIDE  # noqa: E402
from cuttle.ptx.ir import TYPE_BITS  # noqa: E402
from cuttle.ptx.opcode_roots import split_opcode  # noqa: E402
from tools.ptxas_grammar import GRAMMAR  # noqa: E402

OUT = ROOT / "src" / "cuttle" / "sweep" / "recordings" / "accepted_ptx.xz"
TARGETS = ("80", "90")
BATCH = 1500
COMPILED = 300
COORDINATES = {"1d": 1, "2d": 2, "3d": 4, "a1d": 2, "a2d": 4, "cube": 4, "acube": 4, "2dms": 4, "a2dms": 4}


class Statement:
    """One instruction being written: its registers and its operands."""

    def __init__(self, spelling: str) -> None:
        self.spelling = spelling
        self.registers: list[str] = []
        self.operands: list[str] = []

    def register(self, type_name: str) -> str:
        bits = TYPE_BITS.get(type_name, 32)
        name = f"%r{len(self.registers)}"
        self.registers.append(f".reg .{'pred' if bits == 1 else f'b{max(bits, 16)}'} {name};")
        return name

    def brace(self, type_name: str, count: int) -> str:
        return "{" + ", ".join(self.register(type_name) for _ in range(count)) + "}"

    def text(self) -> str:
        return f"{{ {' '.join(self.registers)} {self.spelling} {', '.join(self.operands)}; }}"


def type_of(code: str, types: tuple[str, ...]) -> str:
    last = types[-1] if types else "b32"
    if code == "P":
        return "pred"
    if code in ("T", "G"):
        return last
    if code == "D":
        return types[0] if types else "b32"
    if code == "W":
        return WIDE.get(last, "b64")
    return code


def matrix_counts(opcode: str, modifiers: tuple[str, ...]) -> dict[int, int]:
    """Registers in the brace list of each operand of a matrix instruction."""
    if "matrix" in opcode:
        count = next((int(name[1]) for name in modifiers if name in ("x1", "x2", "x4")), 0)
        if "m16n16" in modifiers:
            count *= 2
        return {1 if opcode.startswith("st") else 0: count} if count else {}
    if opcode in ("wmma.load", "wmma.store"):
        kind = matrix_forms.kinds_after_shape(modifiers)[-1]
        return {
            int(opcode == "wmma.store"): matrix_forms.wmma_registers(
                modifiers[0], matrix_forms.shape_of(modifiers), kind
            )
        }
    form = matrix_forms.form_of(opcode, modifiers)
    return matrix_forms.operand_registers(form) if form else {}


def texture_statements(spelling: str, opcode: str, modifiers: tuple[str, ...], types: tuple[str, ...]) -> Iterator[str]:
    """Texture and surface instructions in the unified mode, with all the operands they can have."""
    count = next(number for geometry, number in COORDINATES.items() if geometry in modifiers)
    vector = next((int(name[1]) for name in modifiers if name in ("v2", "v4")), 1)
    surface = opcode in ("suld", "sust", "sured")
    statement = Statement(spelling)
    data = types[0] if types else "b32"
    coordinates = "s32" if surface else types[-1]
    if opcode in ("tex", "tld4", "suld"):
        statement.operands.append(statement.brace(data, vector) if vector > 1 else statement.register(data))
    statement.operands.append(f"[{statement.register('b64')}, {statement.brace(coordinates, count)}]")
    if opcode in ("sust", "sured"):
        statement.operands.append(statement.brace(data, vector) if vector > 1 else statement.register(data))
    if "level" in modifiers:
        statement.operands.append(statement.register(types[-1]))
    if "grad" in modifiers:
        axes = {1: 1, 2: 2, 4: 4}[
            {"1d": 1, "a1d": 1, "2d": 2, "a2d": 2}.get(next(g for g in COORDINATES if g in modifiers), 4)
        ]
        statement.operands += [
            statement.brace("f32", axes) if axes > 1 else "{" + statement.register("f32") + "}" for _ in range(2)
        ]
    yield statement.text()


def statements(spelling: str) -> Iterator[str]:
    """The instruction with operands, in every way its row knows."""
    parts = split_opcode(spelling)
    if parts is None:
        return
    opcode, modifiers, types = parts
    row = OPCODES[opcode]
    if opcode in ("tex", "tld4", "suld", "sust", "sured"):
        yield from texture_statements(spelling, opcode, modifiers, types)
        return
    counts = matrix_counts(opcode, modifiers) if row.family in ("matrix", "wmma") else {}
    seen: set[str] = set()
    for codes in dict.fromkeys((row.operands, *(form for _, form in row.forms))):
        for pair in (False, True):
            for optional in (0, 1, 2):
                text = written(spelling, row, codes, modifiers, types, counts, pair, optional)
                if text not in seen:
                    seen.add(text)
                    yield text


def written(
    spelling: str, row: Opcode, codes: str, modifiers: tuple[str, ...], types: tuple[str, ...], counts: dict[int, int],
    pair: bool, optional: int
) -> str:  # fmt: skip
    """One way: with a predicate pair or without, with so many of the optional operands (from the first on)."""
    left, _, right = codes.partition(":")
    statement = Statement(spelling)
    vector = next((int(name[1:]) for name in modifiers if name in ("v2", "v4", "v8")), 1)
    destinations = left.split()
    for index, code in enumerate(destinations):
        if code.endswith("?"):
            if pair and index:
                statement.operands[-1] += "|" + statement.register("pred")
            continue
        count = counts.get(0, vector)
        name = type_of(code, types)
        statement.operands.append(
            statement.brace(name, count) if count > 1 or 0 in counts else statement.register(name)
        )
    taken = 0
    for code in right.split():
        if code.endswith(("?", "*")):
            if taken >= optional:
                continue
            taken += 1
        plain = code.rstrip("?*")
        position = len(statement.operands)
        if plain == "A":
            statement.operands.append(f"[{statement.register('b64')}]")
        elif plain == "X":
            statement.operands.append("0xff" if row.name == "pmevent" else "128" if row.family == "memory" else
                                      "0" if row.family == "matrix" else "16")  # fmt: skip
        elif plain == "U":
            statement.operands.append(statement.register("u32"))
        else:
            name = type_of(plain, types)
            count = counts.get(position, vector if plain == "T" else 1)
            if row.name == "lop3" and position == 4:
                statement.operands.append("0xca")
            elif count > 1 or position in counts:
                statement.operands.append(statement.brace(name, count))
            else:
                statement.operands.append(statement.register(name))
    return statement.text()


def check(texts: list[str], ptxas: str, target: str, stop: bool) -> list[bool]:
    """Which of the statements ptxas takes. With `stop` an error of our own keeps it from generating code."""
    head = [f".version 9.0\n.target sm_{target}\n.address_size 64", ".visible .entry k()", "{"]
    first = head[0].count("\n") + 1 + len(head)
    source = "\n".join([*head, *texts, "add.s32.s32.rn 0;" if stop else "", "ret;", "}"]) + "\n"
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(source)
        file.flush()
        command = [ptxas, f"-arch=sm_{target}", "-O0", "-o", "/dev/null", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        # Lines of `<builtin>`, where ptxas keeps functions of its own, are none of ours.
        pattern = re.escape(file.name) + r", line (\d+);\s*(?:error|fatal)"
    refused = {int(line) - first for line in re.findall(pattern, done.stdout + done.stderr)}
    answer = [index not in refused for index in range(len(texts))]
    if stop and len(texts) in refused:
        return answer
    if not stop and done.returncode == 0:
        return answer
    if not stop and not all(answer):  # once more without them: later steps may find more
        rest = iter(check([text for text, fine in zip(texts, answer, strict=True) if fine], ptxas, target, stop))
        return [fine and next(rest) for fine in answer]
    # A statement at which ptxas gives up or crashes: found by halving.
    if len(texts) <= 1:
        return [False] * len(texts)
    middle = len(texts) // 2
    return check(texts[:middle], ptxas, target, stop) + check(texts[middle:], ptxas, target, stop)


def ask(spellings: list[str], ptxas: str, target: str) -> dict[str, int]:
    """The spellings that ptxas takes → which of their `statements`: checked all together, compiled those that passed."""
    texts: list[str] = []
    owners: list[tuple[str, int]] = []
    for spelling in spellings:
        for index, text in enumerate(statements(spelling)):
            texts.append(text)
            owners.append((spelling, index))
    answer = check(texts, ptxas, target, True)
    passed = [pair for pair, fine in zip(zip(owners, texts, strict=True), answer, strict=True) if fine]
    found: dict[str, int] = {}
    for at in range(0, len(passed), COMPILED):
        part = passed[at : at + COMPILED]
        compiled = check([text for _, text in part], ptxas, target, False)
        for ((spelling, index), _), fine in zip(part, compiled, strict=True):
            if fine:
                found.setdefault(spelling, index)
    return found


def accepted_spellings(spellings: list[str], ptxas: str, jobs: int = 2) -> dict[str, tuple[str, int]]:
    """Spelling → the lowest of `TARGETS` for which ptxas takes it, and which of its `statements`."""
    result: dict[str, tuple[str, int]] = {}
    batches = [spellings[at : at + BATCH] for at in range(0, len(spellings), BATCH)]
    with ThreadPoolExecutor(jobs) as pool:
        for target in reversed(TARGETS):
            for found in pool.map(lambda batch, target=target: ask(batch, ptxas, target), batches):
                result.update((spelling, (target, index)) for spelling, index in found.items())
    return {spelling: result[spelling] for spelling in spellings if spelling in result}


def candidates(only: str = "") -> list[str]:
    """All spellings of the grammar, of the opcodes whose names match."""
    return [text for name, patterns in GRAMMAR.items() if re.search(only, name) for text in expand_all(patterns)]


def read_accepted(path: Path = OUT) -> dict[str, tuple[str, int]]:
    """The committed answer."""
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()[1:]
    parts = [line.split(" ", 2) for line in lines]
    return {spelling: (target, int(index)) for target, index, spelling in parts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ptxas", default=shutil.which("ptxas") or "ptxas")
    parser.add_argument("--only", default="", help="regular expression on opcodes")
    parser.add_argument("--print", action="store_true", help="print instead of writing the file")
    options = parser.parse_args()
    asked = candidates(options.only)
    found = accepted_spellings(asked, options.ptxas)
    version = subprocess.run([options.ptxas, "--version"], capture_output=True, text=True, check=True).stdout
    release = next((line for line in version.splitlines() if "release" in line), "unknown")
    lines = [
        f"# {release}; {len(asked)} candidates",
        *(f"{target} {index} {text}" for text, (target, index) in found.items()),
    ]
    if options.print:
        print("\n".join(lines))
        return
    OUT.write_bytes(lzma.compress(("\n".join(lines) + "\n").encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{len(found)} of {len(asked)} candidates, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
