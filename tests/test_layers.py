"""Layers import downward only, and no modules import each other in a circle."""

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"

# lowest first; a module belongs to the first row that holds it or a package above it
LAYERS = [
    [
        "xloom.deprecation",
        "xloom.environment",
        "xloom.errors",
        "xloom.lazy_attributes",
        "xloom.process_identity",
        "xloom.reference_counts",
        "xloom.trampoline",
    ],
    [
        f"xloom.{name}"
        for name in (
            "checks",
            "process_traces",
            "reentry",
            "status_code",
            "thread_count",
            "trace",
        )
    ],
    ["xloom.compilation_cache"],
    [
        f"xloom.hlo.{name}"
        for name in ("dtype", "shape", "literal", "attributes", "opcodes", "names", "text.lexer", "text.metadata")
    ],
    ["xloom.infer"],
    ["xloom.hlo"],
    [
        "xloom.hlo.verify",
        "xloom.hlo.text.parser",
        "xloom.hlo.proto.decoder",
        "xloom.hlo.builder",
        "xloom.hlo.lazy_module",
    ],
    ["xloom.llvm"],
    ["xloom.cuda.driver"],
    ["xloom.calls"],
    ["xloom.interpreter"],
    ["xloom.passes"],
    ["xloom.codegen.ops", "xloom.codegen.thresholds"],
    ["xloom.codegen.buffer_values", "xloom.codegen.loop_ir"],
    ["xloom.codegen.elemental", "xloom.codegen.emission"],
    ["xloom.codegen"],
    ["xloom.codegen.buffers", "xloom.codegen.preparation"],
    [f"xloom.cpu.kernel_modules.{name}" for name in ("choices", "form", "kernel")],
    ["xloom.cpu.loops", "xloom.cpu.kernels"],
    ["xloom.cpu"],
    ["xloom.cuda.kernel", "xloom.cuda.warp_reduction"],
    ["xloom.cuda.loops"],
    ["xloom.cuda"],
    ["xloom.cuda.run_time"],
    ["xloom.cuda.user_kernels"],
    ["xloom.cuda.emulator"],
    ["xloom.cuda.simulated_driver"],
    ["xloom.cpu.printers", "xloom.sim", "xloom.roofline"],
    ["xloom.testing"],
    ["xloom.stablehlo"],
    ["xloom.reduction"],
    ["xloom.difference"],
    ["xloom"],
    ["xloom.viewer"],
    ["xloom.distributed"],
    ["xloom.pjrt"],
    ["xloom.pjrt.capi"],
    [f"xloom.torch.{name}" for name in ("arrays", "dtypes", "lapack", "metrics", "strides")],
    ["xloom.torch.lowering"],
    ["xloom.supported_package"],
    ["xloom.jax", "xloom.torch"],
    ["xloom.torch.lazy"],
    ["xloom.torch.lazy.compatibility"],
    ["xloom.testing.functions", "xloom.aot"],
    ["xloom.cli"],
]


def layer(module: str) -> int:
    best = None
    for height, names in enumerate(LAYERS):
        for name in names:
            inside = module == name or (name != "xloom" and module.startswith(name + "."))
            if inside and (best is None or len(name) > best[0]):
                best = (len(name), height)
    assert best is not None, f"{module} is in no layer"
    return best[1]


def imports(path: Path, typing: bool = True) -> set[str]:
    """The modules of xloom's that a file imports, anywhere in it; those for typing only are left out if asked."""
    found = set()
    for node in statements(ast.parse(path.read_text()), typing):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, f"{path} has a relative import"
            submodules = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name for name in submodules if is_module(name)}
            if typing or not all(map(is_module, submodules)):
                found.add(node.module)
    return {name for name in found if name == "xloom" or name.startswith("xloom.")}


def statements(node: ast.AST, typing: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and not typing and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            for other in child.orelse:
                yield other
                yield from statements(other, typing)
        else:
            yield child
            yield from statements(child, typing)


def is_module(name: str) -> bool:
    path = SOURCE / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# the one place where a lower layer hands over to a higher one, when asked for it by name
ALLOWED = {("xloom.calls.host", "xloom.interpreter.registry")}


def test_imports_go_downward():
    breaches = []
    for path in sorted(SOURCE.rglob("*.py")):
        module = name_of(path)
        if module == "xloom":
            continue  # the public interface offers what is above it, lazily
        for used in imports(path):
            target = used
            # a package's own __init__ only gathers its files
            if target == "xloom.hlo" or (target, module) == ("xloom", module) or target.startswith(module + "."):
                continue
            if layer(target) > layer(module) and (module, target) not in ALLOWED:
                breaches.append(f"{module} imports {target}")
    assert not breaches, "\n".join(breaches)


def test_every_module_is_in_a_layer():
    for path in SOURCE.rglob("*.py"):
        layer(name_of(path))


def packages(module: str) -> list[str]:
    """The packages that a module lies in, whose `__init__` runs before it."""
    parts = module.split(".")
    return [".".join(parts[:k]) for k in range(1, len(parts))]


def runtime_imports() -> dict[str, set[str]]:
    """What each module imports when it runs, in functions too, and the `__init__` of packages that it lies outside."""
    graph = {}
    for path in sorted(SOURCE.rglob("*.py")):
        module = name_of(path)
        used = imports(path, typing=False)
        own = {module, *packages(module)}
        graph[module] = used | {package for name in used for package in packages(name) if package not in own}
    graph["xloom"] = set()  # the public interface offers what is above it, lazily
    return graph


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan), each sorted."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for used in sorted(graph[module] & graph.keys()):
            if used not in number:
                visit(used)
            if used in stack:
                lowest[module] = min(lowest[module], lowest[used])
        if lowest[module] == number[module]:
            at = stack.index(module)
            if len(stack) > at + 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for module in graph:
        if module not in number:
            visit(module)
    return found


def around(component: Sequence[str], graph: Mapping[str, set[str]]) -> list[str]:
    """A shortest way from the first module of a component back to itself."""
    ways = [[component[0]]]
    seen = set()
    while True:
        way = ways.pop(0)
        for used in sorted(graph[way[-1]] & set(component)):
            if used == component[0]:
                return [*way, used]
            if used not in seen:
                seen.add(used)
                ways.append([*way, used])


def test_no_modules_import_each_other_in_a_circle():
    graph = runtime_imports()
    found = [f"{len(each)} modules: {' -> '.join(around(each, graph))}" for each in cycles(graph)]
    assert not found, "\n".join(found)


def test_circles_are_found(tmp_path, monkeypatch):
    """Also those by an import in a function, and by a package's `__init__`; but not what is for typing only."""
    files = {
        "__init__": "",
        "a": "def f():\n    from xloom.b import g",
        "b": "from xloom.typed import t",
        "typed": "if TYPE_CHECKING:\n    from xloom.b import g\nelse:\n    import xloom.c",
        "c": "class C:\n    async def f(self):\n        if True:\n            import xloom.room.inner",
        "room/__init__": "from xloom.room.outer import x",
        "room/inner": "",
        "room/outer": "from xloom import a",
    }
    for name, text in files.items():
        (tmp_path / "xloom" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "xloom" / f"{name}.py").write_text(text)
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    graph = runtime_imports()
    (component,) = cycles(graph)
    assert component == [f"xloom.{name}" for name in ("a", "b", "c", "room", "room.outer", "typed")]
    assert around(component, graph)[:4] == [f"xloom.{name}" for name in ("a", "b", "typed", "c")]
    (tmp_path / "xloom" / "room" / "outer.py").write_text("")
    assert cycles(runtime_imports()) == []


def test_nothing_runs_code_out_of_data():
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                names += [node.func.id] if node.func.id in ("exec", "eval", "__import__") else []
            banned = {"marshal", "pickle", "shelve", "dill", "cloudpickle", "exec", "eval", "__import__"}
            found |= {(path.relative_to(SOURCE).as_posix(), name) for name in names if name in banned}
    # the annotations of a user's own function
    assert found == {("xloom/calls/signature.py", "eval")}


def test_rooms_list_files_that_exist():
    for room in SOURCE.rglob("__init__.py"):
        listed = re.findall(r"^(\w+\.py) ", ast.get_docstring(ast.parse(room.read_text())) or "", re.MULTILINE)
        assert not [name for name in listed if not (room.parent / name).exists()], room
