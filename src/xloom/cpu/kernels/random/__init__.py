"""Random numbers: the generators of XLA, bit for bit."""
