"""Side-by-side benchmarks: `python -m cuttle.bench` in a source checkout.

The same kernels run by Cuttle, by plain C and by OpenCL runtimes for CPUs, in one interleaved run. `workers` modules run
in processes of their own and, like this file, import nothing of Cuttle outside this room.
"""
