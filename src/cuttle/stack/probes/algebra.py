"""Capability tests of linear algebra, with kernels of our own. Factors are proved by multiplying them again."""

from __future__ import annotations

from array import array

from cuttle.stack.device_program import DeviceProgram
from cuttle.stack.probes.arrays import numbers, product
from cuttle.stack.probes.checking import close, require

N, M = 24, 40  # columns, and rows of tall matrices
SWEEPS = 10
IDENTITY = array("f", [float(i == j) for i in range(N) for j in range(N)])


def program() -> DeviceProgram:
    return DeviceProgram("algebra")


def transposed(a: array[float], rows: int, columns: int) -> array[float]:
    return array("f", [a[row * columns + column] for column in range(columns) for row in range(rows)])


def symmetric(seed: int) -> array[float]:
    """Positive definite."""
    a = numbers(N * N, seed)
    square = product(a, transposed(a, N, N), N, N, N)
    return array("f", [value + (i // N == i % N) for i, value in enumerate(square)])


def solved(a: array[float], b: array[float], columns: int) -> array[float]:
    """X with A X = B, on the device."""
    made, width = program(), N + columns
    both = array("f")
    for row in range(N):
        both += a[row * N : row * N + N] + b[row * columns : row * columns + columns]
    pointer = made.upload(both)
    made.start("eliminate", (1, 1, 1), (width, 1, 1), pointer, N, width)
    found = made.read_floats(pointer, N * width)
    return array("f", [found[row * width + N + column] for row in range(N) for column in range(columns)])


def probe_linalg_solve() -> None:
    a, b = numbers(N * N, 21), numbers(N * 3, 22)
    close(product(a, solved(a, b, 3), N, N, 3), b, 1e-3)


def probe_linalg_inv() -> None:
    a = numbers(N * N, 23)
    close(product(a, solved(a, IDENTITY, N), N, N, N), IDENTITY, 1e-3)


def probe_linalg_cholesky() -> None:
    made, a = program(), symmetric(24)
    pointer = made.upload(a)
    made.start("factor_symmetric", (1, 1, 1), (N, 1, 1), pointer, N)
    factor = made.read_floats(pointer, N * N)
    require(
        all(factor[i * N + j] == 0 for i in range(N) for j in range(i + 1, N)), "the factor is not lower triangular"
    )
    close(product(factor, transposed(factor, N, N), N, N, N), a, 1e-4)


def orthogonal(made: DeviceProgram, a: array[float]) -> tuple[array[float], array[float]]:
    q, r = made.upload(a), made.floats(N * N)
    made.start("factor_orthogonal", (1, 1, 1), (N, 1, 1), q, r, M, N)
    return made.read_floats(q, M * N), made.read_floats(r, N * N)


def probe_linalg_qr() -> None:
    made, a = program(), numbers(M * N, 25)
    q, r = orthogonal(made, a)
    close(product(transposed(q, M, N), q, N, M, N), IDENTITY, 1e-4)
    close(product(q, r, M, N, N), a, 1e-4)


def probe_linalg_lstsq() -> None:
    made, a, b = program(), numbers(M * N, 26), numbers(M, 27)
    q, r = orthogonal(made, a)
    x = made.floats(N)
    made.start("back_substitute", (1, 1, 1), (1, 1, 1), made.upload(q), made.upload(r), made.upload(b), x, M, N)
    found = made.read_floats(x, N)
    rest = array("f", [b[i] - value for i, value in enumerate(product(a, found, M, N, 1))])
    # The rest of a least-squares solution stands upright on all columns.
    across = product(transposed(a, M, N), rest, N, M, 1)
    require(max(map(abs, across)) < 1e-3, f"the rest has {max(map(abs, across)):.3g} along a column")


def singular(made: DeviceProgram, a: array[float]) -> tuple[array[float], array[float], array[float]]:
    us, v, sizes = made.upload(a), made.floats(N * N), made.floats(N)
    made.start("turn_columns", (1, 1, 1), (32, 1, 1), us, v, sizes, M, N, SWEEPS)
    return made.read_floats(us, M * N), made.read_floats(v, N * N), made.read_floats(sizes, N)


def probe_linalg_svd() -> None:
    a = numbers(M * N, 28)
    us, v, sizes = singular(program(), a)
    close(product(us, transposed(v, N, N), M, N, N), a, 1e-4)
    close(product(transposed(v, N, N), v, N, N, N), IDENTITY, 1e-4)
    squares = [sizes[i] ** 2 if i == j else 0.0 for i in range(N) for j in range(N)]
    close(product(transposed(us, M, N), us, N, M, N), squares, 1e-4)


def probe_linalg_pinv() -> None:
    made, a = program(), numbers(M * N, 29)
    us, v, sizes = singular(made, a)
    out = made.floats(N * M)
    made.start_threads("invert_factors", N * M, made.upload(us), made.upload(v), made.upload(sizes), out, M, N)
    close(product(made.read_floats(out, N * M), a, N, M, N), IDENTITY, 1e-3)


def eigenvalues(a: array[float], vectors: bool) -> tuple[array[float], array[float]]:
    made = program()
    pointer, v = made.upload(a), made.floats(N * N)
    nothing = type(v)(0)
    made.start("turn_symmetric", (1, 1, 1), (32, 1, 1), pointer, v if vectors else nothing, N, SWEEPS)
    return made.read_floats(pointer, N * N)[:: N + 1], made.read_floats(v, N * N)


def probe_linalg_eigh() -> None:
    a = symmetric(30)
    values, vectors = eigenvalues(a, True)
    close(product(transposed(vectors, N, N), vectors, N, N, N), IDENTITY, 1e-4)
    right = [vectors[i * N + j] * values[j] for i in range(N) for j in range(N)]
    close(product(a, vectors, N, N, N), right, 1e-4)


def probe_linalg_eigvalsh() -> None:
    a = symmetric(31)
    values, rest = eigenvalues(a, False)
    require(not any(rest), "vectors were written that nobody asked for")
    trace, square = sum(a[:: N + 1]), sum(value * value for value in a)
    close([sum(values), sum(value * value for value in values)], [trace, square], 1e-4)
