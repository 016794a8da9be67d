"""HloModuleProto, the bytes in which XLA keeps and passes on modules."""
