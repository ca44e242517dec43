"""A one-line change in a part that every tier's pods share, previewed: cold, and with what an earlier preview kept.

The whole command runs as a child: git, both sides of five tiers with their reference cases, 1,000 endpoints that ask
for about 80 different things, policies, linter, report. Beside it the same change through the stacks' offline harness,
and the published time of Argo CD's diff preview, which was not run here: 100 s for a run over 92 applications, 45 s of
them for rendering. Its rows are compared with as many endpoints, each of which is one application and asks for
something of its own: the whole command with its whole run, and rendering with rendering. CPU seconds of children count,
the best of a few runs, so that a busy machine is fair; the wall clock stands beside them.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provisioner.admission import forecast_endpoint
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.loader import load_catalog, load_site
from provisioner.catalog.pack import example_site, pack_root
from provisioner.catalog.tier import Tenancy
from provisioner.domain.finding import Severity
from tests.unit.preview_units.repository import make_repository

ENDPOINTS, TENANTS = 1_000, 60
APPLICATIONS = 92
THEIR_RUN_SECONDS, THEIR_RENDERING_SECONDS = 100.0, 45.0
"""argocd-diff-preview, pull request 179: cluster 10 s, Argo CD 44 s, rendering 45 s."""
COLD_SECONDS, CACHED_SECONDS, HARNESS_SECONDS, RATIO = 2.0, 0.5, 5.0, 50
ROUNDS = 3
PART = "applications/runtimes/_shared/pod.j2"
LINE = "terminationGracePeriodSeconds: "
TIER_STACKS = ("shared-eu", "dedicated-eu", "partitioned-eu", "isolated-eu", "multinode-eu")


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds of a command."""

    cpu: float
    wall: float


def main() -> None:
    """Measure, print the table and the goals."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        repository = make_repository(place / "repository")
        fleet, few = place / "fleet.json", place / "few.json"
        write_fleet(fleet, different=False, number=ENDPOINTS)
        write_fleet(few, different=True, number=APPLICATIONS)
        runs = Runs(repository, place)
        cold = runs.best(fleet, is_cold=True)
        again = runs.best(fleet, is_cold=False)
        edited = runs.best(fleet, is_cold=False, is_edited=True)
        applications = runs.best(few, is_cold=True)
        objects, rendering = rendering_of(few)
        harness = harness_seconds(place)
    print(f"{'':<52}{'CPU s':>8}{'wall s':>8}")
    rows = {
        f"preview, cold, {ENDPOINTS:,} endpoints": cold,
        "preview, the same change again": again,
        "preview, another edit of the same line": edited,
        f"preview, cold, {APPLICATIONS} endpoints, {objects:,} objects a side": applications,
        f"of which rendering both sides of {APPLICATIONS}": Took(rendering, rendering),
        f"{len(TIER_STACKS)} stacks through the offline harness": harness,
    }
    for name, took in rows.items():
        print(f"{name:<52}{took.cpu:>8.2f}{took.wall:>8.2f}" if took else f"{name:<52}{'not run':>16}")
    for part, seconds in (("", THEIR_RUN_SECONDS), (", rendering", THEIR_RENDERING_SECONDS)):
        name = f"Argo CD diff preview, {APPLICATIONS} applications{part} (published)"
        print(f"{name:<60}{seconds:>8.0f}")
    goal(f"cold within {COLD_SECONDS:g} s", cold.cpu, COLD_SECONDS)
    goal(f"with cache within {CACHED_SECONDS:g} s", again.cpu, CACHED_SECONDS)
    goal(f"with cache, another edit, within {CACHED_SECONDS:g} s", edited.cpu, CACHED_SECONDS)
    if harness:
        goal(f"offline harness within {HARNESS_SECONDS:g} s", harness.cpu, HARNESS_SECONDS)
    compare("run", THEIR_RUN_SECONDS, applications.cpu)
    compare("rendering", THEIR_RENDERING_SECONDS, rendering)
    each, theirs = cold.cpu / ENDPOINTS, THEIR_RENDERING_SECONDS / APPLICATIONS
    print(f"one more application: {each * 1000:.1f} ms here, {theirs * 1000:.0f} ms published: {theirs / each:.0f}x")


def compare(part: str, theirs: float, ours: float) -> None:
    """Print whether their published time is many times ours for the same part of the job."""
    told = "met" if theirs / ours >= RATIO else "missed"
    print(f"goal: {RATIO}x the published {part}: {theirs / ours:.0f}x ({told})")


def goal(name: str, seconds: float, limit: float) -> None:
    """Print whether a goal is met."""
    print(f"goal: {name}: {seconds:.2f} ({'met' if seconds <= limit else 'missed'})")


@dataclass(frozen=True, slots=True)
class Runs:
    """Previews of a repository as child processes."""

    repository: Path
    place: Path

    def best(self, fleet: Path, *, is_cold: bool, is_edited: bool = False) -> Took:
        """The best of a few runs; cold ones begin without a cache, edited ones each with a value of their own."""
        if not is_cold:
            self._preview(fleet, 100)
        took = []
        for number in range(ROUNDS):
            if is_cold:
                shutil.rmtree(self.place / "cache", ignore_errors=True)
            took.append(self._preview(fleet, 101 + number + 10 * ROUNDS * is_cold if is_edited else 100))
        return min(took, key=lambda one: one.cpu)

    def _preview(self, fleet: Path, seconds: int) -> Took:
        self._edit(seconds)
        return timed(self._command("--against", str(fleet), "-o", "json"), self._environment(), codes=(3,))

    def _edit(self, seconds: int) -> None:
        path = self.repository / PART
        lines = path.read_text().splitlines(keepends=True)
        path.write_text(
            "".join(f"{line.partition(LINE)[0]}{LINE}{seconds}\n" if LINE in line else line for line in lines)
        )

    def _command(self, *arguments: str) -> tuple[list[str], Path]:
        return [sys.executable, "-P", "-m", "provisioner.cli", "preview", *arguments], self.repository

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
        return {**kept, "XDG_CACHE_HOME": str(self.place / "cache"), "XDG_STATE_HOME": str(self.place / "state")}


def timed(command: tuple[list[str], Path], environment: dict[str, str], *, codes: tuple[int, ...]) -> Took:
    """How long a command takes; it has to end with one of `codes`."""
    before, begun = used(), time.perf_counter()
    ended = subprocess.run(command[0], cwd=command[1], env=environment, stdout=subprocess.DEVNULL, check=False)
    took = Took(used() - before, time.perf_counter() - begun)
    if ended.returncode not in codes:
        raise SystemExit(f"{' '.join(command[0])} ended with {ended.returncode}")
    return took


def used() -> float:
    """CPU seconds of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def write_fleet(path: Path, *, different: bool, number: int) -> None:
    """Endpoints of all tiers and of every model that each may serve; `different` makes every request unlike others, and
    leaves out tiers whose pool serves all alike."""
    catalog, chosen = load_catalog(), random.Random(7)
    tiers = [name for name, tier in sorted(catalog.tiers.items()) if not different or tier.tenancy is not Tenancy.POOL]
    models = {tier: served(tier, catalog) for tier in tiers}
    endpoints = []
    for position in range(number):
        tier = chosen.choice(tiers)
        most = chosen.randint(1, min(4, catalog.tiers[tier].limits.max_replicas))
        least = chosen.choice([1, most])
        request: dict[str, Any] = {
            "name": f"chat-{position}",
            "tenant": f"acme-{chosen.randrange(TENANTS)}",
            "model": chosen.choice(models[tier]),
            "region": "eu-central-1",
            "tier": tier,
            "scaling": {"minReplicas": least, "maxReplicas": most},
        }
        if different:
            request["serving"] = {"maxModelLen": 4096 + 16 * position}
        endpoints.append(
            {
                "id": f"ep-{position:010}",
                "tenant": request["tenant"],
                "request": request,
                "templateVersion": catalog.tiers[tier].version,
                "replicas": least,
            }
        )
    path.write_text(json.dumps({"endpoints": endpoints, "capacity": {"metal3.gpu-h100": 64}}))


def served(tier: str, catalog: Catalog) -> list[str]:
    """The models that a tier serves at the example site."""
    site, example = load_site(example_site()), catalog.tiers[tier].example
    found = []
    for model in sorted(catalog.models):
        findings = forecast_endpoint({**example, "model": model}, catalog=catalog, site=site).findings
        if not any(finding.severity is Severity.ERROR for finding in findings):
            found.append(model)
    return found


def rendering_of(fleet: Path) -> tuple[int, float]:
    """The objects of a side, and the CPU seconds of compiling templates and rendering both sides of a fleet."""
    before = time.process_time()
    sides = [sum(1 for _ in rendered(fleet)) for _ in ("before", "after")]
    return sides[0], time.process_time() - before


def rendered(fleet: Path) -> Iterator[Any]:
    """The objects of all endpoints of a fleet."""
    from provisioner.rendering.pack import compile_pack

    catalog, site = load_catalog(), load_site(example_site())
    pack = compile_pack(catalog, site)
    for endpoint in json.loads(fleet.read_text())["endpoints"]:
        plan = forecast_endpoint(endpoint["request"], catalog=catalog, site=site).plan
        for part in pack.parts(plan) if plan else ():
            yield from part.objects


def harness_seconds(place: Path) -> Took | None:
    """The five tier stacks of a copy of the project with the same change; None without Pulumi's SDK."""
    try:
        import pulumi as _  # noqa: F401
    except ModuleNotFoundError:
        return None
    project, repository = place / "project", pack_root()
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("applications", "policies", "provisioner", "stacks", "templates"):
        shutil.copytree(repository / name, project / name, ignore=ignored)
    for path in (*repository.glob("Pulumi*.yaml"), *repository.glob("*.yaml")):
        shutil.copy(path, project)
    shutil.copy(place / "repository" / PART, project / PART)
    command = [sys.executable, "-P", "-m", "stacks.offline", "--folder", str(project), "--stack", *TIER_STACKS]
    environment = {**os.environ, "PYTHONPATH": str(project)}
    timed((command, project), environment, codes=(0,))
    return min((timed((command, project), environment, codes=(0,)) for _ in range(ROUNDS)), key=lambda took: took.cpu)


if __name__ == "__main__":
    main()
