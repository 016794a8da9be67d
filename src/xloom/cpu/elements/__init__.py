"""What one element of each fusible operator is, a family a file."""

from importlib import import_module

FAMILIES = ("elementwise", "layout", "dynamic", "reduce")
for _family in FAMILIES:  # each registers its rules
    import_module(f"{__name__}.{_family}")
