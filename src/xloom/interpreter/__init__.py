"""HLO evaluated with NumPy: slow, readable, exact about edge cases; the oracle for everything else."""
