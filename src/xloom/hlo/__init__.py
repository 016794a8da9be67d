"""HLO itself: types, the instruction graph, its text and protobuf forms."""

from xloom.hlo import shape  # noqa: F401  # gives element types their `dtype[dims]`
