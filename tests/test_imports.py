"""The import rule: data flows arms → oracle → training → router → analysis, one way."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "arms": set(),
    "oracle": {"arms"},
    "router": {"arms"},
    "training": {"arms", "oracle", "router"},
    "analysis": {"arms", "oracle", "router"},
}
HEAVY_FOR_ROUTER = ("torch", "pytorch_lightning", "wandb", "faiss", "bm25s", "pylate", "sklearn")
HEAVY_FOR_HELP = ("torch", "transformers", "faiss", "bm25s", "sklearn", "matplotlib", "pyarrow")


def imported_packages(source: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_only_what_the_rule_allows(package):
    ours = set(MAY_IMPORT) | {"l2r"}
    for source in sorted((ROOT / package).rglob("*.py")):
        forbidden = (imported_packages(source) & ours) - MAY_IMPORT[package] - {package}
        assert not forbidden, f"{source.relative_to(ROOT)} imports {forbidden}"


def test_pipelines_never_import_one_another():
    for source in sorted((ROOT / "arms" / "pipelines").glob("*.py")):
        assert "arms.pipelines" not in source.read_text(encoding="utf-8"), source.name


def modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(' '.join(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return {name.split(".")[0] for name in run.stdout.split()}


def test_importing_router_loads_nothing_heavy():
    assert not modules_after("import router") & set(HEAVY_FOR_ROUTER)


def test_help_loads_nothing_heavy():
    assert not modules_after("import l2r") & set(HEAVY_FOR_HELP)
