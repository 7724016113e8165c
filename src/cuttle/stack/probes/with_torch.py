"""The capability tests as a PyTorch program does them. Right answers come from the same functions on the CPU, in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from cuttle.stack.probes.checking import NotApplicable, require

if not torch.cuda.is_available():
    raise NotApplicable("PyTorch finds no CUDA device")

Tensor = Any


def drawn(*shape: int, seed: int = 1) -> Tensor:
    """On the CPU, in single precision."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def agree(function: Callable[..., Tensor], *values: Tensor, tolerance: float = 1e-4) -> None:
    """What the device computes, against the CPU in double precision."""
    found = function(*(value.cuda() for value in values)).cpu().double()
    right = function(*(value.double() if value.is_floating_point() else value for value in values))
    error = (found - right).abs().max().item()
    require(error <= tolerance * max(1e-30, right.abs().max().item()), f"off by {error:.3g}")


def probe_elementwise() -> None:
    agree(lambda x, y: x * y + x.abs().sqrt() / (1 + torch.exp(-y)), drawn(5000), drawn(5000, seed=2))


def probe_reductions() -> None:
    agree(lambda x: torch.stack([x.sum(), x.max(), x.min(), x.mean()]), drawn(100000))


def probe_matmul() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    agree(lambda a, b: a @ b, drawn(67, 67), drawn(67, 67, seed=2))


def probe_bf16_matmul() -> None:
    a, b = (drawn(64, 64, seed=seed).bfloat16() for seed in (1, 2))
    agree(lambda x, y: x @ y, a, b, tolerance=2**-7)


def probe_fft() -> None:
    agree(lambda x: torch.view_as_real(torch.fft.fft(x)), drawn(256))


def probe_sparse_mm() -> None:
    dense = drawn(50, 50) * (drawn(50, 50, seed=2) > 1)
    agree(lambda a, b: torch.sparse.mm(a.to_sparse_csr(), b), dense, drawn(50, 9, seed=3))


def probe_softmax() -> None:
    agree(lambda x: functional.softmax(x, dim=1), drawn(40, 33))


def probe_layernorm() -> None:
    agree(lambda x: functional.layer_norm(x, (48,)), drawn(30, 48))


def probe_gather_scatter() -> None:
    places = torch.arange(3000) * 7919 % 300
    agree(lambda x, at: torch.cat([x[at], torch.zeros_like(x).index_add(0, at, x)]), drawn(3000), places)


def probe_random() -> None:
    rows = []
    for _ in range(2):
        torch.cuda.manual_seed(5)
        rows.append(torch.rand(20000, device="cuda").cpu())
    require(bool((rows[0] == rows[1]).all()), "the same seed gives other numbers")
    require(abs(rows[0].mean().item() - 0.5) < 0.02, f"their mean is {rows[0].mean().item()}")


def positive(seed: int) -> Tensor:
    a = drawn(24, 24, seed=seed)
    return a @ a.T + torch.eye(24)


def probe_linalg_solve() -> None:
    agree(torch.linalg.solve, drawn(24, 24) + 5 * torch.eye(24), drawn(24, 3, seed=2), tolerance=1e-3)


def probe_linalg_cholesky() -> None:
    agree(torch.linalg.cholesky, positive(1), tolerance=1e-3)


def probe_linalg_qr() -> None:
    def again(a: Tensor) -> Tensor:
        q, r = torch.linalg.qr(a)
        return torch.cat([q @ r, q.T @ q])

    agree(again, drawn(40, 24), tolerance=1e-3)


def probe_linalg_inv() -> None:
    agree(torch.linalg.inv, drawn(24, 24) + 5 * torch.eye(24), tolerance=1e-3)


def probe_linalg_lstsq() -> None:
    agree(lambda a, b: torch.linalg.lstsq(a, b).solution, drawn(40, 24), drawn(40, 2, seed=2), tolerance=1e-3)


def probe_linalg_svd() -> None:
    agree(torch.linalg.svdvals, drawn(40, 24), tolerance=1e-3)


def probe_linalg_pinv() -> None:
    agree(torch.linalg.pinv, drawn(40, 24), tolerance=1e-3)


def probe_linalg_eigh() -> None:
    def again(a: Tensor) -> Tensor:
        values, vectors = torch.linalg.eigh(a)
        return torch.cat([vectors * values @ vectors.T, values[None]])

    agree(again, positive(2), tolerance=1e-3)


def probe_linalg_eigvalsh() -> None:
    agree(torch.linalg.eigvalsh, positive(3), tolerance=1e-3)


def probe_autograd_backward() -> None:
    def slopes(seen: Tensor, weights: Tensor, more: Tensor) -> Tensor:
        inner = [part.detach().clone().requires_grad_() for part in (weights, more)]
        (functional.relu(seen @ inner[0]) @ inner[1]).square().sum().backward()
        return torch.cat([part.grad.flatten() for part in inner])

    agree(slopes, drawn(12, 5), drawn(5, 9, seed=2), drawn(9, 3, seed=3))


def optimized(kind: Callable[[list[Tensor]], Any]) -> None:
    def after_five_steps(values: Tensor, slopes: Tensor) -> Tensor:
        own = values.detach().clone().requires_grad_()
        optimizer = kind([own])
        for _ in range(5):
            own.grad = slopes.clone()
            optimizer.step()
        return own.detach()

    agree(after_five_steps, drawn(1000), drawn(1000, seed=2))


def probe_optimizer_sgd() -> None:
    optimized(lambda values: torch.optim.SGD(values, lr=0.1, momentum=0.9))


def probe_optimizer_adam() -> None:
    optimized(lambda values: torch.optim.Adam(values, lr=0.01))


def probe_amp() -> None:
    layer = torch.nn.Linear(32, 16).cuda()
    optimizer, scaler = torch.optim.SGD(layer.parameters(), lr=0.01), torch.amp.GradScaler("cuda")
    seen, losses = drawn(64, 32).cuda(), []
    for _ in range(20):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            out = layer(seen)
            loss = (out - 1).float().square().mean()
        require(out.dtype == torch.float16, f"the layer computed in {out.dtype}")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    require(losses[-1] < losses[0], f"the loss went from {losses[0]:.4g} to {losses[-1]:.4g}")


def probe_conv2d() -> None:
    torch.backends.cudnn.allow_tf32 = False
    agree(lambda x, f: functional.conv2d(x, f, padding=1), drawn(2, 3, 7, 9), drawn(4, 3, 3, 3, seed=2), tolerance=1e-3)


def probe_batch_norm() -> None:
    agree(lambda x: functional.batch_norm(x, None, None, training=True), drawn(6, 5, 4, 5), tolerance=1e-3)


def attention(backend: Any, dtype: Any, tolerance: float) -> None:
    parts = [drawn(1, 2, 64, 16, seed=seed).to(dtype) for seed in (1, 2, 3)]
    with sdpa_kernel([backend]):
        found = functional.scaled_dot_product_attention(*(part.cuda() for part in parts)).cpu().double()
    with sdpa_kernel([SDPBackend.MATH]):
        right = functional.scaled_dot_product_attention(*(part.double() for part in parts))
    error = (found - right).abs().max().item()
    require(error <= tolerance * right.abs().max().item(), f"off by {error:.3g}")


def probe_sdpa_math() -> None:
    attention(SDPBackend.MATH, torch.float32, 1e-3)


def probe_sdpa_flash() -> None:
    attention(SDPBackend.FLASH_ATTENTION, torch.float16, 1e-2)


def probe_sdpa_mem_efficient() -> None:
    attention(SDPBackend.EFFICIENT_ATTENTION, torch.float16, 1e-2)
