"""The Python in README.md and docs/ runs, and their links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import neuralilp as ni

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def run_snippets(page: Path) -> dict[str, Any]:
    """Execute the fenced python blocks of a page one after the other; the names that they leave."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "snippet"}
    for match in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        line = text[: match.start(1)].count("\n")  # so that tracebacks name the line of the page
        exec(compile("\n" * line + match.group(1), str(page), "exec"), names)
    return names


def test_readme_learns_its_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_snippets(ROOT / "README.md")
    assert names["answer"].z.tolist() == [[1, 1, 1, 0, 0, 0, 0, 0]]
    assert "{'optimal': 1}" in capsys.readouterr().out
    costs = torch.randn(100, 8, generator=torch.Generator().manual_seed(1))
    rule = ((costs < 0) & (costs <= costs.kthvalue(3, keepdim=True).values)).float()
    assert ni.vector_accuracy(ni.solve(names["model"](costs)).z, rule) >= 0.95
    assert [path.name for path in tmp_path.iterdir()] == ["learnt.lp"]


def test_extending_snippets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_snippets(ROOT / "docs" / "extending.md")
    costs, model = names["costs"], names["model"]
    assert names["answer"].z.tolist() == ni.solve(model(costs)).z.tolist()
    points = names["negatives"].points()
    assert points.shape == (1, 50, 4)
    assert set(points.unique().tolist()) == {0, 1}
    assert names["record"]["test"]["vector_accuracy"] >= 0.95
    assert (tmp_path / "runs" / "at-most" / "0" / "record.json").exists()


def test_training_guide_learns_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_snippets(ROOT / "docs" / "training.md")
    assert names["outcome"].best >= 0.95
    assert names["program"].num_variables == 8
    assert (tmp_path / "model" / "weights.safetensors").exists()
    assert (tmp_path / "runs" / "at-most-three" / "curves.png").exists()
    assert names["state"].a.shape[:2] == (1, 1)
    assert ni.vector_accuracy(names["answer"].z, names["solutions"][1000:]) == 1


@pytest.mark.parametrize("page", ["index", "tables", "scaling"])
def test_other_snippets_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_snippets(ROOT / "docs" / f"{page}.md")
    if page == "tables":
        assert [each.row for each in names["learner"].report_.contradictions] == [7]


def test_the_site_is_built_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="needs pip install 'neuralilp[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stderr
    assert "ILPLoss" in (tmp_path / "site" / "reference" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_notation_names_exist() -> None:
    """Every `Name` and `Name.attribute` of the notation table is there in the code."""
    text = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
    for name in ("ConstraintBlock", "IntegerProgram", "Bounds", "Negatives", "LossTerms", "Solution"):
        cls = getattr(ni, name)
        known = {*dir(cls), *getattr(cls, "__dataclass_fields__", ())}
        for attribute in re.findall(rf"`{name}\.(\w+)", text):
            assert attribute in known, f"{name}.{attribute}"
