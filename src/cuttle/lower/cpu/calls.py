"""Calls: the host services that CUDA's device library is declared with, and real device functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuttle.lower.cpu.shaped import of_value, operand_value
from cuttle.lower.emit import Value
from cuttle.lower.passes.graph import Node, SsaOperand

if TYPE_CHECKING:
    from cuttle.lower.cpu.nodes import NodeWriter

# Device functions that the driver provides (CUDA programming guide, "formatted output", "assertion", "dynamic global
# memory allocation"): service name, result width.
SERVICES = {"vprintf": ("vprintf", 32), "__assertfail": ("assertfail", 0), "malloc": ("malloc", 64), "free": ("free", 0)}


def emit_call(writer: NodeWriter, node: Node) -> None:
    """A `call` node."""
    assert node.call is not None
    name = node.call.callee
    if name in SERVICES:
        service, bits = SERVICES[name]
        arguments = [argument(writer, operand) for operand in node.operands][:4]
        result = writer.machine.service(service, arguments, bits)
        for value in node.results:
            if value is not None and result is not None:
                writer.region.write(value, of_value(result))
        return
    writer.machine.refuse(f"call of {name or 'a function pointer'} is not translated")


def argument(writer: NodeWriter, operand: SsaOperand) -> Value:
    """An argument of a service as a 64-bit value."""
    e = writer.emitter
    value = operand_value(e, writer.shaped(operand, "b64"))
    return e.resize(value, 64)
