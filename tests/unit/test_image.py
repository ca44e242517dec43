"""The Dockerfile names what is there: files, extras, commands, and the user and programs that the manifests count on.

Nothing here builds it; the same installation in a fresh environment is what `test_wheel` and the processes' own tests
stand for.
"""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from importlib.metadata import entry_points
from pathlib import Path

from provisioner.cli.main import app
from tests.unit.rendering.installations import objects_of

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
INSTRUCTION = re.compile(r"^([A-Z]+)\s+(.*)$")


def instructions(name: str) -> list[str]:
    """The arguments of every instruction of a kind, from top to bottom."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found = [match for line in text.splitlines() if (match := INSTRUCTION.match(line))]
    return [match[2] for match in found if match[1] == name]


def copied() -> set[str]:
    """What the build takes from the checkout."""
    sources = [line.split()[:-1] for line in instructions("COPY") if not line.startswith("--from")]
    return {source for line in sources for source in line}


def test_everything_that_the_wheel_is_made_of_is_copied_and_nothing_else() -> None:
    build, project = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"], PROJECT["project"]
    wanted = {*build["packages"], *build["force-include"], *project["license-files"], project["readme"]}
    assert copied() == wanted | {"pyproject.toml", "hatch_build.py"}
    assert [name for name in copied() if not (ROOT / name).exists()] == []


def test_what_is_copied_is_sent_to_the_builder_and_keys_and_state_are_not() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == copied()
    assert any(fnmatch("provisioner/__pycache__/x.pyc", line) for line in lines[1:])


def test_it_installs_extras_that_there_are() -> None:
    [line] = [line for line in instructions("RUN") if "pip install" in line]
    [extras] = re.findall(r"\.whl\)\[([\w,-]+)\]", line)
    assert set(extras.split(",")) <= PROJECT["project"]["optional-dependencies"].keys()
    assert "postgresql" in extras.split(","), "where an installation keeps its state"
    assert "router" in extras.split(","), "what endpoints may ask of gateways"


def test_it_starts_our_command() -> None:
    [entry] = instructions("ENTRYPOINT")
    [command] = instructions("CMD")
    [program] = re.findall(r'"(\w+)"', entry)
    assert program in {script.name for script in entry_points(group="console_scripts", module="provisioner.cli.main")}
    assert re.findall(r'"(\w+)"', command)[0] in {command.name for command in app.registered_commands}


def test_it_runs_as_the_user_of_the_manifests_with_the_programs_that_they_need() -> None:
    pods = [made["spec"]["template"]["spec"] for made in objects_of("reference") if made["kind"] == "Deployment"]
    users = {f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" for pod in pods}
    assert set(instructions("USER")) == users
    last = instructions("RUN")[-1]
    assert all(package in last.split() for package in ("ca-certificates", "git", "openssh-client"))
