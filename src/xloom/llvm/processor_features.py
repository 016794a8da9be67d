"""What a processor can do, as LLVM knows it."""

from __future__ import annotations

import re
from collections.abc import Iterable

import llvmlite.binding as llvm

_CALL = re.compile(r"call .*@feature(\d+)\(")


def features_of(cpu: str, triple: str, asked: Iterable[str]) -> frozenset[str]:
    """Those of the features `asked`, by LLVM's names, that an x86-64 processor has.

    LLVM has no function that says it, but inlines one that needs a feature only where the caller has it.
    """
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    names = sorted(asked)
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu)
    lines = [f'target triple = "{triple}"', "declare void @keep(i64)", "define void @caller(i64 %x) #0 {"]
    for k in range(len(names)):
        lines += [f"  %r{k} = call i64 @feature{k}(i64 %x)", f"  call void @keep(i64 %r{k})"]
    lines += ["  ret void", "}", f'attributes #0 = {{ "target-cpu"="{cpu}" }}']
    for k, name in enumerate(names):
        lines += [f"define internal i64 @feature{k}(i64 %x) #{k + 1} {{", f"  %y = add i64 %x, {k}", "  ret i64 %y }"]
        lines.append(f'attributes #{k + 1} = {{ "target-cpu"="x86-64" "target-features"="+{name}" }}')
    module = llvm.parse_assembly("\n".join(lines))
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    called = {int(number) for number in _CALL.findall(str(module))}
    return frozenset(name for k, name in enumerate(names) if k not in called)
