"""Variables that a kernel uses and no module defines."""

from __future__ import annotations

from cuttle.errors import PtxError
from cuttle.ptx.ir import Variable


def refuse_undefined(variable: Variable) -> None:
    """Raises PtxError for a global or constant variable that was only declared.

    Modules are loaded with such declarations, as nobody may use them; a kernel that does must not read zeros.
    """
    if variable.linkage == "extern":
        raise PtxError("PTX-0203", f"`{variable.name}` is declared .extern, and nothing defines it")
