"""The conventions of the code base: direction of imports, sizes, names, documents that are made from the code."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from logjudge.cli.main import COMMANDS, cli
from logjudge.cli.rules import document

ROOT = Path(__file__).parents[1]
# A folder may import from itself and from these.
MAY_IMPORT = {
    "models": set(),
    "histories": {"models"},
    "analysis": {"histories", "models"},
    "plots": {"analysis", "histories", "models"},
    "cli": {"plots", "analysis", "histories", "models"},
}
API = ROOT / "cli" / "api"  # the package `logjudge` itself: it imports what `cli` does, and neither imports the other
# Within analysis a folder may import from itself and from those before it; the pipeline's steps may import from all.
ANALYSIS_ORDER = (
    "batches",
    "cached",
    "extremes",
    "wording",
    "replicas",
    "timelines",
    "partitions",
    "transactions",
    "rules",
    "finding_order",
    "causes",
    "incidents",
    "figures",
    "screening",
)
TOP_LEVEL = {
    *MAY_IMPORT,
    *("benchmarks", "docs", "examples", "scripts", "tests"),
    *("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md"),
    *(".ci", ".gitignore", ".pre-commit-config.yaml", "pyproject.toml", "requirements.lock"),
}
MODULES = sorted(path for folder in MAY_IMPORT for path in (ROOT / folder).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
DOTTED = {
    ".".join(path.relative_to(API if path.is_relative_to(API) else ROOT).with_suffix("").parts).removesuffix(
        ".__init__"
    ): path
    for path in MODULES
}


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file; all checks share it."""
    return ast.parse(path.read_text())


def name_of(path: Path) -> str:
    """A file as messages name it."""
    return str(path.relative_to(ROOT))


def package_of(path: Path) -> tuple[str, ...]:
    """The parts below logjudge of a module's package."""
    return () if path.is_relative_to(API) else path.relative_to(ROOT).parts[:-1]


def imports(path: Path) -> list[tuple[str, ...]]:
    """Absolute names (as parts below logjudge or of a library) that a module imports."""
    here = package_of(path)
    found: list[tuple[str, ...]] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found += [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else ()
            module = tuple(node.module.split(".")) if node.module else ()
            names = [(alias.name,) for alias in node.names] if not module and node.level else [()]
            found += [(*base, *module, *name) for name in names]
    return found


def wrong_imports(path: Path) -> set[str]:
    """The imports of a module against the direction of the folders."""
    folder, found = path.relative_to(ROOT).parts[0], imports(path)
    if path.is_relative_to(API):
        wrong = [parts for parts in found if parts[0] == "cli"]  # the API must not import the command line
    else:
        wrong = [parts for parts in found if parts[:2] == ("cli", "api")]
    wrong += [parts for parts in found if parts[0] == "logjudge"]  # imports inside the package are relative
    wrong += [parts for parts in found if parts[0] in MAY_IMPORT.keys() - MAY_IMPORT[folder] - {folder}]
    return {".".join(parts) for parts in wrong}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout of git")
@pytest.mark.skipif(shutil.which("git") is None, reason="git lists what is committed")
def test_no_result_is_committed() -> None:
    """Results of logjudge are written to folders, and such a folder is easily added to a commit by mistake."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {path.split("/")[0] for path in listed.splitlines()} <= TOP_LEVEL


def test_imports_flow_one_way() -> None:
    assert not {name_of(path): wrong for path in MODULES if (wrong := wrong_imports(path))}


@pytest.mark.parametrize("folder", [name for name in ANALYSIS_ORDER if (ROOT / "analysis" / name).is_dir()])
def test_imports_flow_one_way_within_analysis(folder: str) -> None:
    before = ANALYSIS_ORDER[: ANALYSIS_ORDER.index(folder) + 1]
    paths = sorted((ROOT / "analysis" / folder).glob("*.py"))
    assert len(paths) > 1
    for path in paths:
        inside = {parts[1] for parts in imports(path) if parts[0] == "analysis"}
        assert inside <= set(before), f"{path} must not import {inside - set(before)}"


def imported_modules(path: Path) -> set[str]:
    """The modules that a module imports, also for types only and inside functions."""
    here = package_of(path)
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = (*here[: len(here) - node.level + 1], *(node.module.split(".") if node.module else ()))
            for alias in node.names:
                name = ".".join((*base, alias.name))
                found.add(name if name in DOTTED else ".".join(base))
    return found & DOTTED.keys()


def nodes_in_cycles(graph: Mapping[str, set[str]]) -> set[str]:
    """The nodes of a graph that reach themselves."""
    found: set[str] = set()
    for start in graph:
        seen: set[str] = set()
        waiting = list(graph[start])
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += graph.get(node, ())
        if start in seen:
            found.add(start)
    return found


def test_imports_have_no_cycles() -> None:
    circular = nodes_in_cycles({name: imported_modules(path) - {name} for name, path in DOTTED.items()})
    assert not circular, sorted(circular)


def test_the_check_of_cycles_can_fail() -> None:
    assert nodes_in_cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == {"b", "c"}
    assert "models.replication.cluster" in imported_modules(ROOT / "models" / "replication" / "run.py")


def test_the_check_of_directions_can_fail() -> None:
    assert ("analysis", "figures") in imports(ROOT / "analysis" / "summary.py")
    assert ("plots", "style") not in imports(ROOT / "analysis" / "kernel.py")
    assert ("histories", "tables") in imports(ROOT / "analysis" / "kernel.py")


def test_pyspark_stays_at_the_edge() -> None:
    for path in MODULES:
        if ROOT / "analysis" / "engines" not in path.parents:
            assert not [parts for parts in imports(path) if parts[0] == "pyspark"], path
            assert not re.search(r"\b(_jvm|_sc|_jsparkSession)\b", path.read_text()), f"{path}: parts of a session"


def test_modules_and_functions_stay_small() -> None:
    for path in MODULES:
        assert path.read_text().count("\n") <= 400, path
        assert ast.get_docstring(tree_of(path)), f"{path} has no docstring"
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno <= 70, f"{path}: {node.name} is too long"
            if isinstance(node, ast.ExceptHandler):
                assert node.type is not None, f"{path}: a bare except hides bugs"


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = "import sys, logjudge\nprint(sorted(name for name in sys.modules if 'logjudge' in name))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = [name for name in ast.literal_eval(done.stdout) if not name.startswith("__editable__")]
    assert loaded == ["logjudge"]


# Words that name nothing of the field: an identifier names what it holds or does instead (CONTRIBUTING.md).
VAGUE = frozenset(
    (
        *("told", "untold", "tells", "says", "said", "nobody", "whose", "sought", "asked", "deed", "deeds", "whys"),
        *("kept", "sealed", "settled", "fate", "fates", "veiled"),
    )
)


def vague_names(path: Path) -> set[str]:
    """Identifiers that a module defines with a word of VAGUE."""
    tree = tree_of(path)
    names = {path.stem}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return {name for name in names if VAGUE.intersection(name.lower().split("_"))}


# Words that a reader translates: a setting is not recorded, an offset is before another one (CONTRIBUTING.md).
UNCLEAR = re.compile(
    r"\b([Tt]old|[Tt]ells?|[Nn]obody|[Ss]omebody|stood|stands (before|behind|between))\b|^(Nor|The same of)\b"
)


def prose(path: Path) -> list[str]:
    """The comments of a file, and the docstrings of a module."""
    comments = re.findall(r"(?:^|\s)# (.*)", path.read_text())
    if path.suffix != ".py":
        return comments
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    return comments + [
        ast.get_docstring(node) or "" for node in ast.walk(tree_of(path)) if isinstance(node, documented)
    ]


def unclear_prose(path: Path) -> list[str]:
    """The comments and docstrings of a file with a word of UNCLEAR."""
    return [text for text in prose(path) if UNCLEAR.search(text)]


def undocumented_names(path: Path) -> set[str]:
    """Public functions, classes and methods without a docstring. Methods of a subclass may inherit theirs."""
    found: set[str] = set()
    waiting: list[ast.stmt] = list(tree_of(path).body)
    for node in waiting:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            if not ast.get_docstring(node):
                found.add(node.name)
            if isinstance(node, ast.ClassDef) and {ast.unparse(base) for base in node.bases} <= {"NamedTuple"}:
                waiting += node.body
    return found


def test_names_use_the_field_s_words() -> None:
    assert not {name_of(path): names for path in [*MODULES, *TESTS] if (names := vague_names(path))}


def test_prose_uses_plain_words() -> None:
    corpus = sorted((ROOT / "tests" / "corpus").glob("*.txt"))
    assert not {name_of(path): texts for path in [*MODULES, *TESTS, *corpus] if (texts := unclear_prose(path))}


def test_public_names_have_a_docstring() -> None:
    assert not {name_of(path): names for path in MODULES if (names := undocumented_names(path))}


def test_the_check_of_names_can_fail(tmp_path: Path) -> None:
    module = tmp_path / "deeds.py"
    module.write_text(
        "class Row:\n    says: str\n\n"
        "def tell_all(told, row):\n    self.kept_rows = row.kept\n    for said in told: ...\n"
    )
    assert vague_names(module) == {"deeds", "told", "kept_rows", "said", "says"}
    assert undocumented_names(module) == {"Row", "tell_all"}


def test_the_check_of_prose_can_fail(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("# Unknown: nobody told the setting.\n\n# Nor is it lost.\n\n# In order.\n")
    assert unclear_prose(tmp_path / "corpus.txt") == ["Unknown: nobody told the setting.", "Nor is it lost."]
    (tmp_path / "module.py").write_text('"""A record that stands before another."""\n# Somebody set it.\n')
    assert unclear_prose(tmp_path / "module.py") == ["Somebody set it.", "A record that stands before another."]


def test_rules_leave_their_name_to_the_judge() -> None:
    """The judge of a rule adds its name to the findings; `finding` takes none."""
    for path in (ROOT / "analysis" / "rules").glob("*.py"):
        found = re.search(r'\bfinding\(\s*\w+,\s*"[a-z-]+",', path.read_text())
        assert found is None, f"{path}: {found[0]} takes the partition and then the sentence, and no name of the rule"


def test_tests_stay_small() -> None:
    assert not [name_of(path) for path in TESTS if path.read_text().count("\n") > 400]


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom logjudge.cli.main import cli\ncli.main(['--help'], standalone_mode=False)\n"
        "print([name for name in ('polars', 'pyspark', 'matplotlib', 'numpy', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("[]")


def test_small_runs_are_judged_without_pandas_and_compiled_loops() -> None:
    program = (
        "import pathlib, sys\nfrom logjudge.analysis.engines.local import judge_run\n"
        "from logjudge.histories.bundle import open_run\n"
        "findings = [len(judge_run(open_run(pathlib.Path(path))).findings()) for path in sys.argv[1:]]\n"
        "print(all(findings), [name for name in ('pandas', 'numba') if name in sys.modules])"
    )
    paths = [str(ROOT / "tests" / "data" / history) for history in ("jepsen.edn", "real/kip-101-c")]
    done = subprocess.run([sys.executable, "-c", program, *paths], capture_output=True, text=True, check=True)
    assert done.stdout == "True []\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Usage:")


def test_the_rules_are_documented() -> None:
    assert (ROOT / "docs" / "rules.md").read_text() == document(), "logjudge rules --markdown > docs/rules.md"


def test_packages_are_all_mapped() -> None:
    import tomllib

    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {
        "logjudge" if path == API else "logjudge." + ".".join(path.relative_to(ROOT).parts): path
        for folder in MAY_IMPORT
        for path in [ROOT / folder, *(ROOT / folder).rglob("*")]
        if path.is_dir() and list(path.glob("*.py"))
    }
    assert set(tools["packages"]) == set(folders)
    assert tools["package-dir"] == {"logjudge": "cli/api"} | {f"logjudge.{folder}": folder for folder in MAY_IMPORT}
    for path in folders.values():
        assert (path / "py.typed").exists(), f"{path} has no py.typed"
