"""The plain leg: a second, slow, obviously right way from PTX to an image for the CPU's executor.

Nothing of `lower/passes` and of the vector lowering is used, only the op functions, with one lane's scalar values. Each PTX
instruction becomes a small function; registers lie in memory; a scheduler of a few lines chooses whose instruction comes
next. Operations across a warp wait until the lanes of their member mask are there. See docs/design/plain_leg.md.
"""
