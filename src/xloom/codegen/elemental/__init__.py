"""What one element of each fusible operator is, one family per file."""

from importlib import import_module

FAMILIES = ("elementwise", "layout", "dynamic", "reduce", "contraction")


def register_rules() -> None:
    """Imports the families, each of which registers its rules."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}")
