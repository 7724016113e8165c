"""The CPU back end: SIMT to SIMD. See docs/design/cpu_simt.md.

`compile_kernel.compile_kernel` is the way in; only compile workers may import it, for it loads LLVM.
"""
