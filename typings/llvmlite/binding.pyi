# llvmlite has no types of its own, and those that pyright infers from its decorators are wrong
from typing import Any

def __getattr__(name: str) -> Any: ...
