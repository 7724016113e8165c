"""The capability tests as rows. Their names are those of the public PowerShell scripts' matrix, so that reports can be compared."""

from __future__ import annotations

from dataclasses import dataclass

GROUPS = ("driver", "arrays", "algebra", "learning")


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """One test. Those of the group `driver` call the driver API in any case; the others are computed by the front end."""

    name: str
    group: str
    title: str


PROBES: tuple[ProbeRow, ...] = (
    ProbeRow("device_info", "driver", "name, memory, compute capability, and attributes that agree with each other"),
    ProbeRow("driver_pci_bus_id", "driver", "the device is found by its PCI address"),
    ProbeRow("driver_api", "driver", "version, entry points by name, names of errors"),
    ProbeRow("driver_launch_ex", "driver", "cuLaunchKernelEx with attributes"),
    ProbeRow("driver_pdl_semantics", "driver", "programmatic dependent launch keeps the order of results"),
    ProbeRow("driver_func_attributes", "driver", "shared memory, registers, limits and versions of a kernel"),
    ProbeRow("driver_function_metadata", "driver", "a kernel's name, module, and parameters"),
    ProbeRow("driver_ptx_selection", "driver", "PTX for newer GPUs is refused, other PTX runs"),
    ProbeRow("driver_buffer_clear", "driver", "cuMemset of 8, 16, 32 bits and rows, nothing beside it touched"),
    ProbeRow("nvml", "driver", "the management library names the device and its memory"),
    ProbeRow("memory_copy", "driver", "copies in all directions, pinned, asynchronous, with pitch"),
    ProbeRow("streams_events", "driver", "streams wait for events, elapsed time is measured"),
    ProbeRow("cuda_graph", "driver", "a captured graph runs again and again"),
    ProbeRow("elementwise", "arrays", "arithmetic, root and exponential, element by element"),
    ProbeRow("reductions", "arrays", "sum and maximum"),
    ProbeRow("matmul", "arrays", "a product in single precision"),
    ProbeRow("bf16_matmul", "arrays", "a product in bfloat16"),
    ProbeRow("fft", "arrays", "a discrete Fourier transform"),
    ProbeRow("sparse_mm", "arrays", "compressed rows times a dense matrix"),
    ProbeRow("softmax", "arrays", "softmax of rows"),
    ProbeRow("layernorm", "arrays", "rows of mean 0 and variance 1"),
    ProbeRow("gather_scatter", "arrays", "indexed loads and atomic sums"),
    ProbeRow("random", "arrays", "random numbers: the same by the same seed, evenly spread"),
    ProbeRow("linalg_solve", "algebra", "a linear system"),
    ProbeRow("linalg_cholesky", "algebra", "Cholesky factor"),
    ProbeRow("linalg_qr", "algebra", "orthogonal factor"),
    ProbeRow("linalg_inv", "algebra", "inverse"),
    ProbeRow("linalg_lstsq", "algebra", "least squares"),
    ProbeRow("linalg_svd", "algebra", "singular values"),
    ProbeRow("linalg_pinv", "algebra", "pseudo-inverse"),
    ProbeRow("linalg_eigh", "algebra", "eigenvalues and vectors of a symmetric matrix"),
    ProbeRow("linalg_eigvalsh", "algebra", "eigenvalues alone"),
    ProbeRow("autograd_backward", "learning", "the gradient of a small network"),
    ProbeRow("optimizer_sgd", "learning", "stochastic gradient descent with momentum"),
    ProbeRow("optimizer_adam", "learning", "Adam"),
    ProbeRow("amp", "learning", "gradients scaled in half precision, overflow found"),
    ProbeRow("conv2d", "learning", "a convolution"),
    ProbeRow("batch_norm", "learning", "channels of mean 0 and variance 1"),
    ProbeRow("sdpa_math", "learning", "attention, step by step"),
    ProbeRow("sdpa_flash", "learning", "attention, tiled"),
    ProbeRow("sdpa_mem_efficient", "learning", "attention, in chunks"),
)
