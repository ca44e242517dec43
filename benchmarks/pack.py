"""Endpoints of mixed tiers, from request to YAML text on disk, against what platform teams use for the same job.

A thousand requests are planned and rendered on one core, and each endpoint's objects are written to a file as one
stream. Rendering and writing are compared, which is what the baselines do: they make the same objects of one endpoint
per call and print them to a file, an overlay that changes names, labels and an image over a base, and a chart of the
same manifests with the endpoint's name as a value. CPU seconds are compared, the best of a few rounds of each over the
same files, so that a busy machine is fair to all. `kubectl` and `helm` are those that `make engines` and
`make engines ARGS=helm` build, or those on PATH. One request is also taken as `tenantry plan` takes it once it has
started: planned, rendered, and judged by its tier's admission policies.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from provisioner.admission import admit_endpoint, forecast_endpoint
from provisioner.admission.manifests import ManifestJudge
from provisioner.catalog.catalog import Catalog
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.manifests import endpoint_files, kinds, pool_files
from tests.engines import find_engine
from tests.unit.rendering.examples import catalog, example_pack, example_site

ENDPOINTS = 1000
GOAL_SECONDS = 1.0
GOAL_OF_ONE_SECONDS = 0.05
GOAL_RATIO = 100
CALLS = 10
REPLICAS = 16
"""So many that an endpoint is about 60 objects: a replica adds a Service, a route and a policy."""


def main() -> None:
    """Measure, print the table and the two goals."""
    requests = [request(number) for number in range(ENDPOINTS)]
    for number in range(len(catalog().tiers)):
        plan_and_render(requests[number], number)  # a shape is compiled once in a process's life
    with tempfile.TemporaryDirectory() as folder:
        rounds = [ours(requests, Path(folder)) for _ in range(CALLS)]
        planning, rendering, writing, objects, text = min(rounds, key=lambda took: sum(took[:3]))
        total = planning + rendering
        rate = objects / (rendering + writing)  # what a baseline does as well; none of them plans anything
        print(
            f"{ENDPOINTS} endpoints of {len(catalog().tiers)} tiers, {objects} objects, {text / 2**20:.1f} MiB of YAML"
        )
        print(f"{'':<34}{'CPU s':>9}{'objects/s':>12}{'ratio':>8}")
        print(f"{'planning':<34}{planning:>9.3f}")
        print(f"{'rendering':<34}{rendering:>9.3f}{objects / rendering:>12,.0f}")
        print(f"{'writing':<34}{writing:>9.3f}")
        print(f"{'rendering and writing':<34}{rendering + writing:>9.3f}{rate:>12,.0f}")
        ratios = [compare(name, make, Path(folder), rate) for name, make in BASELINES.items()]
    one = max(map(seconds_of_one, catalog().tiers))
    print(f"{'one plan with its policies':<34}{one:>9.3f}")
    told = "met" if one <= GOAL_OF_ONE_SECONDS else "missed"
    print(f"goal: one plan in {GOAL_OF_ONE_SECONDS * 1000:g} ms: {one * 1000:.0f} ({told})")
    told = "met" if total <= GOAL_SECONDS else "missed"
    print(f"goal: plan and render in {GOAL_SECONDS:g} s: {total:.2f} ({told})")
    for ratio in filter(None, ratios):
        print(f"goal: {GOAL_RATIO}x a baseline with disk: {ratio:.0f}x ({'met' if ratio >= GOAL_RATIO else 'missed'})")


def request(number: int) -> dict[str, Any]:
    """A request of one of the tiers, in turn."""
    tiers = sorted(catalog().tiers)
    tier = tiers[number % len(tiers)]
    scaling = {"minReplicas": 1, "maxReplicas": 4 if tier == "multinode" else REPLICAS}
    return {**catalog().tiers[tier].example, "name": f"chat-{number}", "scaling": scaling}


def plan_and_render(raw: Mapping[str, Any], number: int) -> tuple[EndpointPlan, dict[str, bytes]]:
    """One endpoint; a pool's own tree counts, as if it were published anew."""
    plan = plan_of(raw, number)
    return plan, render(plan)


def plan_of(raw: Mapping[str, Any], number: int) -> EndpointPlan:
    """The plan of a request, in tiers that allow so many replicas."""
    _, plan = admit_endpoint(raw, catalog=wide(), site=example_site(), endpoint_id=EndpointId(f"ep-{number:010d}"))
    return plan


@cache
def wide() -> Catalog:
    """The catalog that ships, with room for `REPLICAS` replicas in every tier."""
    tiers = catalog().tiers
    room = {
        name: tier.model_copy(update={"limits": tier.limits.model_copy(update={"max_replicas": REPLICAS})})
        for name, tier in tiers.items()
    }
    return replace(catalog(), tiers=room)


def render(plan: EndpointPlan) -> dict[str, bytes]:
    """Everything of one endpoint as files."""
    files = endpoint_files(example_pack(), plan)
    return files | example_pack().runtime_tree(plan) if plan.pool else files


def ours(requests: list[dict[str, Any]], folder: Path) -> tuple[float, float, float, int, int]:
    """CPU seconds of planning, of rendering and of writing; objects and bytes."""
    start = time.process_time()
    plans = [plan_of(raw, number) for number, raw in enumerate(requests)]
    planned = time.process_time()
    trees = [render(plan) for plan in plans]
    rendered = time.process_time()
    for number, tree in enumerate(trees):
        with (folder / f"{number}.yaml").open("wb", buffering=0) as file:
            file.write(b"---\n".join(tree.values()))
    written = time.process_time()
    objects, text = sum(map(len, trees)), sum(len(value) for tree in trees for value in tree.values())
    return planned - start, rendered - planned, written - rendered, objects, text


def seconds_of_one(tier: str) -> float:
    """CPU seconds of one plan as `tenantry plan` makes it, of the tier's own example."""
    judge, raw = ManifestJudge(example_pack()), catalog().tiers[tier].example
    spent = []
    for _ in range(CALLS + 1):
        start = time.process_time()
        plan = forecast_endpoint(raw, catalog=catalog(), site=example_site()).plan
        if plan is None:
            raise AssertionError(f"the example of {tier} has no plan")
        files = {**endpoint_files(example_pack(), plan), **pool_files(example_pack(), plan)}
        judge.findings(plan)
        kinds(files)
        spent.append(time.process_time() - start)
    return min(spent)


def kustomize(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """A base of one endpoint's manifests, and an overlay that makes another endpoint of it."""
    base, overlay = folder / "base", folder / "overlay"
    base.mkdir()
    overlay.mkdir()
    for number, text in enumerate(files.values()):
        (base / f"{number}.yaml").write_bytes(text)
    names = "".join(f"  - {number}.yaml\n" for number in range(len(files)))
    (base / "kustomization.yaml").write_text(f"resources:\n{names}")
    (overlay / "kustomization.yaml").write_text(
        "resources:\n  - ../base\nnameSuffix: -two\nlabels:\n  - pairs: {tenantry.io/tenant: other}\n"
        "images:\n  - {name: vllm/vllm-openai, newTag: v2}\n"
    )
    return ["kubectl", "kustomize", str(overlay)]


def helm(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """A chart of one endpoint's manifests with its name as a value."""
    chart = folder / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: endpoint\nversion: 1.0.0\n")
    for number, text in enumerate(files.values()):
        templated = text.decode().replace("{{", '{{ "{{" }}').replace("ep-0000000001", "{{ .Values.endpoint }}")
        (chart / "templates" / f"{number}.yaml").write_text(templated)
    return ["helm", "template", "endpoint", str(chart), "--set", "endpoint=ep-two"]


BASELINES: Mapping[str, Callable[[Path, Mapping[str, bytes]], list[str]]] = {
    "kubectl kustomize": kustomize,
    "helm template": helm,
}


def compare(
    name: str, make: Callable[[Path, Mapping[str, bytes]], list[str]], folder: Path, rate: float
) -> float | None:
    """Print a baseline's row; returns how many times its rate ours is, None where the program is not there."""
    _, files = plan_and_render(request(1), 1)
    program, *arguments = make(folder, files)
    found = find_engine(program)
    if found is None:
        print(f"{name:<34}not measured: `{program}` is nowhere")
        return None
    made = folder / f"{program}.yaml"
    seconds = min(_seconds_of([found, *arguments], made) for _ in range(CALLS))
    if (objects := len(re.findall(rb"^kind: ", made.read_bytes(), re.MULTILINE))) != len(files):
        raise SystemExit(f"{name} made {objects} objects of {len(files)}")
    theirs = len(files) / seconds
    print(f"{f'{name}, {len(files)} per call':<34}{seconds:>9.3f}{theirs:>12,.0f}{rate / theirs:>7,.0f}x")
    return rate / theirs


def _seconds_of(command: list[str], made: Path) -> float:
    spent = _children()
    with made.open("wb") as file:
        subprocess.run(command, check=True, stdout=file, env={**os.environ, "HOME": str(made.parent)})
    return _children() - spent


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
