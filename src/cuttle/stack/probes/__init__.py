"""The capability tests of `cuttle stack probe`: each runs in a process of its own, `python -m cuttle.stack.probes NAME`."""
