"""The import table: who may import whom, and where torch may stand."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "tircli"
LAYERS = [
    {"", "records", "checks", "seen", "papers"},
    {"templates", "registry", "budget"},
    {"progress"},
    {"jsonl", "tools", "engines", "answers"},
    {"protocols", "spool"},
    {"turns", "schedule"},
    {"rollout", "judge", "llm_judge", "audit", "panel", "rewards", "faces"},
    {"evolve", "pareto", "attc", "convert", "train"},
    {"slices", "statistics", "sums"},
    {"metrics", "compare", "graders", "report", "plots", "scatter"},
    {"stages"},
    {"cli"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
FILES = sorted(ROOT.rglob("*.py"))


def part(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names if node.module == "tircli" else {node.module}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_imports_its_own_layer_or_lower(path):
    for name in imports(path):
        if name.startswith("tircli."):
            target = name.split(".")[1]
            assert RANK.get(target, 0) <= RANK[part(path)], f"{path.name} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_torch_stands_in_training_and_local_engines_alone(path):
    heavy = {name.split(".")[0] for name in imports(path)} & {"torch", "transformers", "vllm"}
    allowed = part(path) == "train" or path.parent.name == "engines" or path.name == "dense.py"
    assert not heavy or allowed


def test_print_is_no_way_to_speak():
    calls = [
        (path.name, node.lineno)
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
    ]
    assert calls == []
