"""HLO itself: types, the instruction graph, its text and protobuf forms."""
