"""What linter and admission policies say to the objects of a unit, asked once for the same objects.

The answers of earlier previews are used again while objects, catalog, policies and our own code are the same. Given to
`make_sides` by wiring. Pure but for the packs' files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import orjson

from provisioner.admission.manifests import ManifestJudge
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding, Severity
from provisioner.domain.plan import EndpointPlan
from provisioner.preview.cache import Cache, key_of
from provisioner.preview.units import Source
from provisioner.rendering.publishing import Object


class Judging:
    """Judges for both sides. `code` stands for our own code and what is installed with it; `kubernetes` is the API
    servers' version, such as 1.34, None where the site says it; `say` is told, once, when there is no linter."""

    def __init__(self, cache: Cache, *, code: str, kubernetes: str | None, say: Callable[[str], None]) -> None:
        self._cache = cache
        self._code = code
        self._kubernetes = kubernetes
        self._say = say
        self._policies: dict[Source, ManifestJudge] = {}
        self._has_linter = True

    def judge(self, source: Source, plan: EndpointPlan | None, objects: Sequence[Object]) -> tuple[Finding, ...]:
        """Every finding about objects that are applied together; `plan` is None for what is published.

        Raises RejectedError for a policy that cannot be read.
        """
        asked = orjson.dumps([objects, plan], option=orjson.OPT_SORT_KEYS)
        key = key_of(self._code, source.digest, str(self._kubernetes), str(self._has_linter), asked)
        if (kept := self._cache.get(key)) is not None:
            return tuple(_restored(found) for found in orjson.loads(kept))
        told = (*self._lint(source, objects), *(self._ask_policies(source, plan) if plan else ()))
        if self._has_linter:
            self._cache.put(key, orjson.dumps([asdict(finding) for finding in told]))
        return told

    def _ask_policies(self, source: Source, plan: EndpointPlan) -> tuple[Finding, ...]:
        if source not in self._policies:  # the other side's policies serve, where they are the same
            same = (judge.policies for other, judge in self._policies.items() if other.digest == source.digest)
            self._policies[source] = ManifestJudge(source.pack, next(same, {}))
        return self._policies[source].findings(plan)

    def _lint(self, source: Source, objects: Sequence[Object]) -> Iterator[Finding]:
        if not self._has_linter:
            return
        from provisioner.lint.rendered import lint_objects

        try:
            version = self._version(source)
        except RejectedError as error:
            self._has_linter = False
            self._say(f"{error.message}: the linter's findings are left out; {error.hint}")
            return
        yield from lint_objects(objects, catalog=source.catalog, kubernetes=version)

    def _version(self, source: Source) -> tuple[int, int]:
        """The version that is asked for, else the site's, else the newest one. Raises RejectedError (`NoLintExtra`)."""
        from provisioner.lint.kubernetes import chosen_version, supported_versions

        wanted = self._kubernetes or source.site.kubernetes_version
        return chosen_version(wanted if wanted in {f"1.{minor}" for _, minor in supported_versions()} else None)


def _restored(found: dict[str, Any]) -> Finding:
    return Finding(**{**found, "severity": Severity(found["severity"])})
