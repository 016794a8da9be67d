"""CUgraphNodeParams of a conditional node: graphs that are run by what a kernel has told a handle."""

from __future__ import annotations

import ctypes

TYPE = 13
"""CU_GRAPH_NODE_TYPE_CONDITIONAL."""
IF, WHILE = 0, 1
"""CUgraphConditionalNodeType."""


class ConditionalNodeParams(ctypes.Structure):
    """256 bytes, as for all kinds of nodes."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("reserved0", ctypes.c_int * 3),
        ("handle", ctypes.c_uint64),
        ("kind", ctypes.c_int),
        ("size", ctypes.c_uint),
        ("bodies", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("reserved1", ctypes.c_int64 * 26),
    )

    @property
    def body(self) -> int:
        """The first CUgraph of the node, once it is made."""
        return ctypes.c_void_p.from_address(self.bodies).value or 0
