"""Random valid HLO modules, each reproducible by its seed and number."""

from tests.judges.programs.generator import Program, generate

__all__ = ["Program", "generate"]
