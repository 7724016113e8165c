"""Containers of device code: fat binaries, ELF (host and cubin), PE, and Cuttle's own linked images.

All bytes here come from applications and are not trusted: every offset, size and count is checked against the data
and against a limit before use, and only `ContainerError` comes out.
"""
