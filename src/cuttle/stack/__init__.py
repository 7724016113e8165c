"""`cuttle stack`: a reproducible CUDA-on-AMD stack for Windows and Linux. docs/design/stack.md is the plan."""
