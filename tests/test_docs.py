"""The documents: README, help and sample data say what is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from tircli import jsonl
from tircli.cli import app
from tircli.judge import judge_auto

ROOT = Path(__file__).parents[1]
COMMANDS = sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
README = (ROOT / "README.md").read_text("utf-8")
TIR = (sys.executable, "-c", "from tircli.cli import main; main()")


def help_of(command: str) -> str:
    done = subprocess.run([*TIR, command, "--help"], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_the_readme_names_every_command(command):
    assert re.search(rf"`tir {command}\b|^tir {command}\b", README, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_one_short_first_sentence_and_examples(command):
    text = help_of(command)
    first = next(line.strip() for line in text.splitlines() if line.strip() and "Usage" not in line)
    assert len(first) <= 75
    assert f"tir {command}" in text.partition("Examples:")[2]


def test_the_list_of_commands_cuts_no_sentence():
    assert "..." not in help_of("--help").partition("Commands:")[2]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_help_text(command):
    for parameter in typer.main.get_command(app).commands[command].params:  # type: ignore[attr-defined]
        assert getattr(parameter, "help", None), f"{command} {parameter.name}"


def test_the_readme_names_no_command_that_does_not_exist():
    named = set(re.findall(r"\btir ([a-z][a-z-]+)", README))
    assert named <= {*COMMANDS}


@pytest.mark.parametrize("option", ["--output", "--model", "--seed", "--resume", "--overwrite"])
def test_an_option_is_spelt_alike_in_every_command(option):
    spellings = set()
    for command in typer.main.get_command(app).commands.values():  # type: ignore[attr-defined]
        for parameter in command.params:
            if option in parameter.opts:
                spellings.add(tuple(parameter.opts))
    assert len(spellings) <= 1, spellings


@pytest.mark.parametrize("name", ["math.jsonl", "qa.jsonl"])
def test_sample_gold_answers_pass_their_own_judge(name):
    for question in jsonl.read(str(ROOT / "sample_data" / name)):
        for gold in question.golds:
            question.prediction = gold
            assert judge_auto(question)[0] == 1.0, question.id


def test_the_changelog_is_kept():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    heads = re.findall(r"^## \[(.+?)\]", text, re.MULTILINE)
    assert heads[0] == "Unreleased"
    kinds = set(re.findall(r"^### (\w+)", text, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
