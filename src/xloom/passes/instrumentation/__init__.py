"""Programs that also say whether they made a NaN, or used an index out of range, as native code runs them."""

from xloom.passes.instrumentation.instrument import instrumented, numbered

__all__ = ["instrumented", "numbered"]
