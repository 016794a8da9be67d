"""Which instructions one loop nest computes: producer-consumer, multi-output, and operands of dots."""
