"""Python never calls a function that is compiled for compiled functions alone: it has no entry for Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = [path for folder in ("models", "histories") for path in (ROOT / folder).rglob("*.py")]
MODULES = {path: ast.parse(path.read_text()) for path in FILES}
Function = tuple[Path, str]  # its module's file, and its name


def decorators(node: ast.AST) -> set[str]:
    return {one.id for one in getattr(node, "decorator_list", ()) if isinstance(one, ast.Name)}


INNER: set[Function] = {
    (path, node.name)
    for path, tree in MODULES.items()
    for node in tree.body
    if isinstance(node, ast.FunctionDef) and decorators(node) & {"inner", "inner_in_place"}
}


def called_by_python(node: ast.AST) -> Iterator[ast.expr]:
    """What is called outside of compiled functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield child.func
        if not decorators(child) & {"compiled", "compiled_in_place", "inner", "inner_in_place"}:
            yield from called_by_python(child)


def imported(path: Path, tree: ast.AST) -> Iterator[tuple[str, Function]]:
    """Each name that a module imports from the package, and which function of which module, or which module, it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            source = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for one in node.names:
                module = source / f"{one.name}.py"
                yield one.asname or one.name, (module, "") if module.exists() else (source.with_suffix(".py"), one.name)


def test_no_python_calls_an_inner_function() -> None:
    assert len(INNER) > 50
    for path, tree in MODULES.items():
        names = dict(imported(path, tree))
        for called in called_by_python(tree):
            if isinstance(called, ast.Name):
                assert names.get(called.id, (path, called.id)) not in INNER, f"{path}:{called.lineno}"
            elif isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
                module, _ = names.get(called.value.id, (path, ""))
                assert (module, called.attr) not in INNER, f"{path}:{called.lineno}"
