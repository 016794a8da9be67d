"""LLVM IR to machine code in this process."""

from __future__ import annotations

import ctypes
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

import llvmlite.binding as llvm

from xloom.compilation_cache.cache import Cache, key_of
from xloom.compilation_cache.shipped import shipped
from xloom.llvm.called_functions import with_calls
from xloom.llvm.compiler_runtime import SYMBOLS, support_ir
from xloom.llvm.module_template import ModuleTemplate
from xloom.llvm.object_code import Passes, emitted
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.shared_code import compare_object, is_checked
from xloom.llvm.target import Target, process_target

object_cache = Cache()


_OF_TILES = ("AlwaysInliner", "SROA", "SimplifyCFG", "InstCombine", "LoopRotate")
_OF_VECTORS = (
    "AlwaysInliner",
    "SROA",
    "SimplifyCFG",
    "InstCombine",
    "LoopRotate",
    "NewGVN",
    "InstCombine",
    "SimplifyCFG",
)
PASSES = {
    PassPipeline.LOOPS: Passes(level=3, vectorise=True, unroll=True),
    PassPipeline.ROWS: Passes(level=3, vectorise=True),
    PassPipeline.STEPS: Passes(level=3, unroll=True),
    PassPipeline.VECTORS: Passes(level=None, named=_OF_VECTORS),
    PassPipeline.TILES: Passes(level=None, named=_OF_TILES),
    PassPipeline.ROUTINES: Passes(level=None, named=("AlwaysInliner",)),
    PassPipeline.CALLERS: Passes(level=0),
    PassPipeline.CALLS: Passes(level=0),
    PassPipeline.THREADS: Passes(level=3, unroll=True),
}


_LEVELS = {
    PassPipeline.CALLERS: 0,
    PassPipeline.CALLS: 0,
    PassPipeline.TILES: 3,
    PassPipeline.ROUTINES: 3,
    PassPipeline.THREADS: 3,
}
"""Of code generation. Beyond 1, it takes a tenth longer to order instructions anew once they have their registers, from
which only tiles and networks of comparisons gain: everywhere else processors do that themselves."""
_idle: dict[tuple[Target, int], list[llvm.TargetMachine]] = defaultdict(list)
"""Target machines by level, for the next who needs one: a new one first works out all that the processor can do."""


@contextmanager
def _borrowed_machine(target: Target, pipeline: PassPipeline) -> Iterator[llvm.TargetMachine]:
    """A target machine that no other thread uses meanwhile."""
    level = _LEVELS.get(pipeline, 1)
    idle = _idle[target, level]
    try:
        machine = idle.pop()
    except IndexError:
        machine = _new_target_machine(target, level)
    try:
        yield machine
    finally:
        idle.append(machine)


def _new_target_machine(target: Target, level: int) -> llvm.TargetMachine:
    if target.runs_here:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.feature_text,
        opt=level,
        reloc="default" if target.is_gpu else "pic",
        codemodel="default" if target.is_gpu else "small",
    )


@lru_cache(maxsize=16)
def target_machine(target: Target) -> llvm.TargetMachine:
    """LLVM's form of a target, for one thread: to ask it something, or to link."""
    return _new_target_machine(target, 3)


_NO_TARGET = 'target triple = "unknown-unknown-unknown"\ntarget datalayout = ""\n'
"""What llvmlite says of a module's target."""


@lru_cache(maxsize=16)
def target_header(target: Target) -> str:
    """The lines of a module's text that name the target."""
    machine = target_machine(target)
    return f'target triple = "{machine.triple}"\ntarget datalayout = "{machine.target_data}"\n'


def object_key(text: str, pipeline: PassPipeline, target: Target) -> str:
    """What `object_cache` has the object file of LLVM IR `text` under."""
    return key_of(*_parts(text, pipeline, target))


def _parts(text: str, pipeline: PassPipeline, target: Target) -> tuple[bytes, ...]:
    return target.key, pipeline.value.encode(), text.encode()


def _shipped_object(text: str, pipeline: PassPipeline, target: Target) -> bytes | None:
    entries = shipped(target.name)
    return entries.get(entries.key_of(*_parts(text, pipeline, target))) if entries else None


def object_code(text: str, pipeline: PassPipeline, target: Target) -> bytes:
    """The relocatable object file of LLVM IR `text`, which is made once."""
    if pipeline is PassPipeline.CALLS:
        return _object_of_calls(text, target)
    return _kept_object(text, pipeline, target)


def _object_of_calls(text: str, target: Target) -> bytes:
    """As `object_code`: of programs of a few kernels, many are alike but for these."""
    template = ModuleTemplate(text)
    found = template.filled(_kept_object(template.text, PassPipeline.CALLS, target)) if template.is_shared else None
    return found or made_anew(text, PassPipeline.CALLS, target)


def _kept_object(text: str, pipeline: PassPipeline, target: Target) -> bytes:
    key = object_key(text, pipeline, target)
    data = object_cache.get(key) or _shipped_object(text, pipeline, target)
    if data is None:
        data = made_anew(text, pipeline, target)
        object_cache.put(key, data)
    elif is_checked():
        compare_object(key, data, partial(made_anew, text, pipeline, target))
    return data


def process_code(text: str, pipeline: PassPipeline = PassPipeline.LOOPS) -> bytes:
    """The object file of LLVM IR `text` that is to run in this process, which is made once."""
    return object_code(text, pipeline, process_target())


def made_anew(text: str, pipeline: PassPipeline, target: Target) -> bytes:
    """The object file of LLVM IR `text`, whether there is one or not."""
    return _emitted(text, pipeline, target, as_object=True)


def assembly(text: str, pipeline: PassPipeline, target: Target) -> str:
    """The assembly of LLVM IR `text`."""
    return _emitted(text, pipeline, target, as_object=False).decode()


def _emitted(text: str, pipeline: PassPipeline, target: Target, as_object: bool) -> bytes:
    passes = PASSES[pipeline]
    if passes.vectorise or pipeline in (PassPipeline.STEPS, PassPipeline.VECTORS):
        text = with_calls(text, target, vectorise=passes.vectorise)
    with _borrowed_machine(target, pipeline) as machine:
        text = text.replace(_NO_TARGET, target_header(target), 1)
        return emitted(text.encode(), machine, passes, as_object)


_LINKED_BY_ONE = 64
"""Libraries that one linker links: LLVM keeps 11 KiB of each that is gone, until the linker goes with its last one."""


@lru_cache(maxsize=1)
def _linker(generation: int) -> Any:
    return llvm.create_lljit_compiler(target_machine(process_target()), use_jit_link=True, suppress_errors=False)


_serial = itertools.count()
_LINKED_BYTES = 40 << 10
"""What a library takes beside its code: pages that are not full, and LLVM's own tables. Measured."""


class Library:
    """Object files linked into the process. It must live as long as its code may run."""

    def __init__(self, objects: Iterable[bytes], exports: Iterable[str], imports: Mapping[str, int] | None = None):
        builder = llvm.JITLibraryBuilder()
        objects = list(objects)
        if any(name.encode() in data for data in objects for name in SYMBOLS):
            objects.append(process_code(support_ir()))
        self.nbytes = _LINKED_BYTES + sum(map(len, objects))
        """Bytes of memory, about."""
        for data in objects:
            builder.add_object_img(data)
        for name, address in (imports or {}).items():
            builder.import_symbol(name, address)
        for name in exports:
            builder.export_symbol(name)
        builder.add_current_process()
        number = next(_serial)
        self._linker = _linker(number // _LINKED_BY_ONE)
        self._tracker = builder.link(self._linker, f"xloom.{number}")

    def address(self, symbol: str) -> int:
        """The address of an exported symbol."""
        return self._tracker[symbol]

    def function(self, symbol: str, prototype: Any) -> Any:
        """An exported function, as ctypes calls it."""
        return prototype(self.address(symbol))


TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
"""ctypes' type of a kernel's phase."""
