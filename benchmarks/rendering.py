"""Manifests per second on one core: a compiled tier against plain Jinja and a YAML parser over the same templates.

Both turn the same requests into the same objects of one endpoint, in turns within one run; the plain side uses the
fastest parser there is for Python (libyaml). Prints a table and the ratio.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable

from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import EndpointPlan
from tests.unit.rendering.examples import catalog, model_for, pack, plan, site
from tests.unit.rendering.plain import RuntimeTemplates, plain_environment

ROUNDS = 5
SECONDS_PER_ROUND = 0.6
GOAL = 100_000


def main() -> None:
    """Measure every runtime of the tier `dedicated` and print the table."""
    print(f"{'runtime':<12}{'manifests':>10}{'compiled/s':>14}{'plain/s':>10}{'ratio':>9}")
    slowest = min(measure(runtime) for runtime in sorted(catalog().runtimes))
    print(f"goal: {GOAL:,} manifests/s per core; slowest: {slowest:,.0f} ({'met' if slowest >= GOAL else 'missed'})")


def measure(runtime: str) -> float:
    """Print one row; returns manifests per second of the compiled side."""
    first = plan(model=model_for(runtime))
    plans = [dataclasses.replace(first, endpoint=EndpointId(f"ep-{number:010d}")) for number in range(8)]
    templates, environment = RuntimeTemplates(catalog(), site(), first), plain_environment()

    def plain_tree(_: EndpointPlan) -> int:
        return len(templates.plain_objects(environment))  # its values are ready made, which costs it nothing

    compiled, plain = in_turns(plans, compiled_tree, plain_tree)
    print(f"{runtime:<12}{compiled_tree(first):>10}{compiled:>14,.0f}{plain:>10,.0f}{compiled / plain:>8,.0f}x")
    return compiled


def compiled_tree(wanted: EndpointPlan) -> int:
    """Fill one endpoint's tree; returns how many manifests it has."""
    return len(pack().runtime_tree(wanted))


def in_turns(
    plans: list[EndpointPlan], first: Callable[[EndpointPlan], int], second: Callable[[EndpointPlan], int]
) -> tuple[float, float]:
    """The median rates of both, measured by turns so that a slow moment of the machine hits both."""
    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for render, found in zip((first, second), rates, strict=True):
            found.append(rate(plans, render))
    return statistics.median(rates[0]), statistics.median(rates[1])


def rate(plans: list[EndpointPlan], render: Callable[[EndpointPlan], int]) -> float:
    """Manifests per CPU second of this process."""
    render(plans[0])
    manifests, start = 0, time.process_time()
    while (spent := time.process_time() - start) < SECONDS_PER_ROUND:
        for wanted in plans:
            manifests += render(wanted)
    return manifests / spent


if __name__ == "__main__":
    main()
