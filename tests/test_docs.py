"""The guides do what they say: every block of theirs is run, in order, in a folder of its own."""

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from fnode.cli import main

ROOT = Path(__file__).parents[1]
GUIDES = ("getting_started", "data", "labels", "constraints", "inputs_and_parameters")
BLOCK = re.compile(r"^```(\w+) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = ("git ", "make ", "cd ", "pip ", "source ", "export ")  # done before, by whoever runs this test


def blocks(page: str) -> list[tuple[str, str, str]]:
    """The fenced blocks of a guide: language, the name of a file, content."""
    return BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text())


def run(line: str) -> str:
    """What a line of the shell prints; an error of a `fnode` line is part of that."""
    words = shlex.split(line, comments=True)
    assert words[0] == "fnode", f"not a line this test can run: {line}"
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sys, "argv", words)
        with contextlib.redirect_stderr(printed), pytest.raises(SystemExit) as stop:
            main()
    refused = printed.getvalue().startswith("fnode: ")
    assert stop.value.code == (2 if refused else 0), printed.getvalue()
    return printed.getvalue()


def check_printed(shown: str, printed: str) -> None:
    """Every line shown was printed; what changes from run to run is shown as `...`."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    for line in filter(None, (" ".join(line.split()) for line in shown.splitlines())):
        pattern = ".*".join(map(re.escape, line.split("...")))
        assert any(re.fullmatch(pattern, other) for other in lines), f"not printed: {line}\n{printed}"


@pytest.mark.parametrize("page", GUIDES)
def test_guides_do_what_they_say(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    names = {"__name__": page}
    found = blocks(page)
    assert any(language in ("sh", "console", "python") for language, _, _ in found)
    for language, file, content in found:
        if file:
            Path(file).write_text(content)
        elif language == "sh":
            for line in content.replace("\\\n", " ").splitlines():
                if line and not line.startswith(("#", *ELSEWHERE)):
                    assert not (printed := run(line)).startswith("fnode: "), printed
        elif language == "console":
            for session in content.removeprefix("$ ").split("\n$ "):
                line, _, shown = session.partition("\n")
                check_printed(shown, run(line))
        elif language == "python":
            exec(compile(content, f"{page}.md", "exec"), names)


def test_links_between_pages_lead_somewhere():
    for page in (*ROOT.glob("docs/*.md"), ROOT / "README.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_leads_to_every_guide():
    readme = (ROOT / "README.md").read_text()
    assert [page for page in GUIDES if f"docs/{page}.md" not in readme] == []
