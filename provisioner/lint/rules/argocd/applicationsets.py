"""ApplicationSets of Argo CD: templates and generators.

An ApplicationSet fills parameters of generators into a template, by Go templates (`goTemplate: true`, `{{.name}}`) or
by plain replacement (`{{name}}`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.argocd._generators import (
    Expression,
    elements,
    expressions,
    fields,
    generators,
    given,
    is_go,
    kinds,
    makes_several,
    sets,
    template_parts,
)
from provisioner.lint.values import items, text
from provisioner.lint.world import World

_PLAIN_NAME = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+|\[[0-9]+\])*")
_WORDS_OF_GO = {"end", "else", "now", "break", "continue", "uuidv4", "nil", "true", "false"}
_OPTIONS = tuple(f"missingkey={value}" for value in ("default", "invalid", "zero", "error"))


@rule("applicationset-template-style", Severity.ERROR)
def applicationset_template_style(world: World) -> Iterator[Hit]:
    """An ApplicationSet writes parameters in the other style than the one it uses.

    With `goTemplate: true` a parameter is `{{.name}}`; `{{name}}` calls a function that does not exist and nothing is
    generated. Without it a parameter is `{{name}}`; `{{.name}}`, pipes and `if` stay in the text as they are
    (applicationset, Go Template).
    """
    for found, spec in sets(world):
        names = _given(spec)
        for base, part in template_parts(spec):
            for expression in expressions(part, ("spec", *base)):
                fix = _to_go(expression, names) if is_go(spec) else _from_go(expression, names)
                if fix:
                    yield Hit(
                        at=found,
                        path=expression.path,
                        message=f"filling in template: with goTemplate {str(is_go(spec)).lower()} this is no parameter:"
                        f" `{expression.written}`",
                        fix=fix,
                    )


def _given(spec: Mapping[str, Any]) -> frozenset[str] | None:
    """The parameters of all generators of the set, None where nobody can know them."""
    known = [given(generator, go=is_go(spec)) for _, generator, depth in generators(spec) if depth == 0]
    sure = [names for names in known if names is not None]
    return frozenset().union(*sure) if sure and len(sure) == len(known) else None


def _to_go(expression: Expression, _names: frozenset[str] | None) -> str | None:
    """How a plain parameter is written for Go."""
    inner = expression.inner
    is_plain = _PLAIN_NAME.fullmatch(inner) and inner not in _WORDS_OF_GO
    return f"write `{{{{.{'path.path' if inner == 'path' else inner}}}}}`" if is_plain else None


def _from_go(expression: Expression, names: frozenset[str] | None) -> str | None:
    """What to do about an expression of Go; one that is meant for somebody else, such as an alert, is left alone."""
    piped = expression.inner.partition("|")
    name = piped[0].strip()
    if piped[1] and names and (name in names or name.partition(".")[0] in names):
        return "set `goTemplate: true` and write `{{ .name | … }}`, or leave the pipe out"
    used = set(fields(expression.inner))
    is_value = any(str(part).startswith("values") for part in expression.path)
    if used and (used & names if names is not None else not is_value):
        return "set `goTemplate: true` and `goTemplateOptions: [missingkey=error]`, or write `{{name}}`"
    return None


@rule("applicationset-missing-key", Severity.WARNING)
def applicationset_missing_key(world: World) -> Iterator[Hit]:
    """A parameter that is missing becomes the text `<no value>`.

    Go templates print `<no value>` for a key that is not there, which then stands in a path, a name or a value. The
    documentation recommends `goTemplateOptions: ["missingkey=error"]` (applicationset, Go Template).
    """
    for found, spec in sets(world):
        options = [item for _, item in items(spec, "goTemplateOptions")]
        if is_go(spec) and "missingkey=error" not in options:
            yield Hit(
                at=found,
                path=("spec", "goTemplate"),
                message=f"filling in template: a missing parameter becomes `<no value>`: `{found.name}`",
                fix='add `goTemplateOptions: ["missingkey=error"]`',
            )


@rule("applicationset-option-unknown", Severity.ERROR)
def applicationset_option_unknown(world: World) -> Iterator[Hit]:
    """An option for Go templates does not exist.

    `goTemplateOptions` holds `missingkey=default`, `invalid`, `zero` or `error`; Go panics on anything else, and
    nothing is generated.
    """
    for found, spec in sets(world):
        for path, item in items(spec, "goTemplateOptions"):
            if isinstance(item, str) and item not in _OPTIONS:
                yield Hit(
                    at=found,
                    path=("spec", *path),
                    message=f"setting template option: there is no such option: `{item}`",
                    fix="write `missingkey=error`",
                )


@rule("applicationset-default-with-missing-key", Severity.WARNING)
def applicationset_default_with_missing_key(world: World) -> Iterator[Hit]:
    """A default for a missing parameter does not help, because a missing parameter is an error.

    With `missingkey=error` the lookup fails before `default` is asked (argo-cd issue 20594). `dig "name" "fallback" .`
    or `get . "name" | default "fallback"` look without failing. Nothing is said about keys that every element has.
    """
    for found, spec in sets(world):
        if "missingkey=error" not in [item for _, item in items(spec, "goTemplateOptions")]:
            continue
        sure = _sure_keys(spec)
        for base, part in template_parts(spec):
            for expression in expressions(part, ("spec", *base)):
                if re.search(r"\b(default|coalesce)\b", expression.inner) and not (
                    set(fields(expression.inner)) <= sure
                ):
                    yield Hit(
                        at=found,
                        path=expression.path,
                        message=f"filling in template: with `missingkey=error` this fails: `{expression.written}`",
                        fix='look the parameter up with `dig "name" "fallback" .`',
                    )


def _sure_keys(spec: Mapping[str, Any]) -> set[str]:
    """The parameters that are there in every case."""
    found: set[str] = set()
    for _, generator, _depth in generators(spec):
        listed = elements(generator)
        if listed:
            found |= set.intersection(*(set(element) for element in listed))
    return found


@rule("applicationset-unknown-parameter", Severity.ERROR)
def applicationset_unknown_parameter(world: World) -> Iterator[Hit]:
    """A template uses a parameter that no generator gives.

    It becomes `<no value>`, or stays as `{{name}}` in the text, or fails, by style and options: never what was meant.
    Only said where all generators are of kinds whose parameters are known.
    """
    for found, spec in sets(world):
        go = is_go(spec)
        names = _given(spec)
        if names is None:
            continue
        for base, part in template_parts(spec):
            for expression in expressions(part, ("spec", *base)):
                for name in _used(expression.inner, go):
                    if name not in names:
                        yield Hit(
                            at=found,
                            path=expression.path,
                            message=f"filling in template: no generator gives the parameter: `{name}`",
                            fix=f"use one of: {', '.join(sorted(names))}",
                        )


def _used(inner: str, go: bool) -> tuple[str, ...]:
    if go:
        has_scope = re.match(r"(range|with|block|define|template)\b", inner) or "$" in inner
        return () if has_scope else fields(inner)
    return (re.split(r"[.\[]", inner)[0],) if _PLAIN_NAME.fullmatch(inner) and inner not in _WORDS_OF_GO else ()


@rule("applicationset-parameter-not-everywhere", Severity.ERROR)
def applicationset_parameter_not_everywhere(world: World) -> Iterator[Hit]:
    """An element of a list lacks a parameter that the template uses.

    The Application of that element gets `<no value>` or `{{name}}` in the place of it, or is not generated at all.
    """
    for found, spec in sets(world):
        joined = [(path, generator) for path, generator, _ in generators(spec) if "merge" not in path]
        used = {
            name
            for _, part in template_parts(spec)
            if not _has_branches(part)
            for expression in expressions(part)
            if not re.search(r"\b(default|if|dig|get|hasKey|with|coalesce)\b", expression.inner)
            for name in _used(expression.inner, is_go(spec))
        }
        for path, generator in joined:
            listed = elements(generator)
            everywhere = {key for element in listed for key in element}
            for position, element in enumerate(listed):
                for name in sorted((used & everywhere) - set(element)):
                    yield Hit(
                        at=found,
                        path=("spec", *path, "list", "elements", position),
                        message=f"filling in template: the element has no parameter: `{name}`",
                        fix=f"add `{name}` to the element",
                    )


def _has_branches(part: Any) -> bool:
    """Whether conditions decide what is used, which nobody can tell by names alone."""
    return any(re.match(r"-?\s*(if|with|range)\b", one.inner) for one in expressions(part))


@rule("applicationset-name-not-unique", Severity.ERROR)
def applicationset_name_not_unique(world: World) -> Iterator[Hit]:
    """The Applications of an ApplicationSet get the same name.

    Argo CD refuses to generate anything when two Applications have one name ("contains applications with duplicate
    name"). A matrix needs a parameter of both of its generators in the name.
    """
    for found, spec in sets(world):
        name = text(spec, "template", "metadata", "name")
        if not name:
            continue
        used = {
            field
            for one in expressions(name)
            for field in _used(one.inner, is_go(spec)) or fields(one.inner) or (one.inner,)
        }
        patched = "name:" in (text(spec, "templatePatch") or "")
        top = [generator for _, generator, depth in generators(spec) if depth == 0]
        is_constant = not used and (len(top) > 1 or any(makes_several(one) for one in top))
        reason = "every application is called the same" if is_constant else _indistinct(top, used, name)
        if reason and not patched:
            yield Hit(
                at=found,
                path=("spec", "template", "metadata", "name"),
                message=f"naming generated applications: {reason}: `{name}`",
                fix="put what tells the elements apart into the name, such as the cluster and the folder",
            )


def _indistinct(top: list[Mapping[str, Any]], used: set[str], name: str) -> str | None:
    """Why parameterised names collide, None where they need not."""
    for generator in top:
        for _, child in items(generator, "matrix", "generators"):
            names = given(child, go=True) if isinstance(child, Mapping) else None
            if names is not None and makes_several(child) and not used & names:
                return f"nothing of generator `{kinds(child)[0]}` tells them apart"
        listed = elements(generator)
        if len(listed) > 1 and len(_expressions_of(name)) == 1 and len(used) == 1:
            values = [str(element.get(next(iter(used)))) for element in listed]
            if len(set(values)) < len(values):
                return "two elements have the same value"
    return None


def _expressions_of(written: str) -> tuple[str, ...]:
    """The expressions in one text."""
    return tuple(found.inner for found in expressions(written))


@rule("applicationset-name-no-label", Severity.ERROR)
def applicationset_name_no_label(world: World) -> Iterator[Hit]:
    """The name of generated Applications takes in a path or an address.

    A path has slashes and a server is a URL; neither may be part of an object's name, and the Application is refused.
    `path.basename`, `path.basenameNormalized`, `nameNormalized` and `normalize` make good names (applicationset, Git
    and Cluster Generator).
    """
    for found, spec in sets(world):
        for one in expressions(text(spec, "template", "metadata", "name")):
            if re.fullmatch(r"\.?(path|path\.path|server|url)", one.inner):
                yield Hit(
                    at=found,
                    path=("spec", "template", "metadata", "name"),
                    message=f"naming generated applications: this is a path or an address: `{one.written}`",
                    fix="use the base name of the path, or the name of the cluster",
                )


@rule("applicationset-path-is-a-map", Severity.ERROR)
def applicationset_path_is_a_map(world: World) -> Iterator[Hit]:
    """A Go template prints the whole path object of a git generator.

    With Go templates `.path` is an object; it is printed as `map[basename:…]`. The path itself is `.path.path`
    (applicationset, Git Generator).
    """
    for found, spec in sets(world):
        has_git = any("git" in kinds(generator) for _, generator, _depth in generators(spec))
        for base, part in template_parts(spec) if has_git and is_go(spec) else ():
            for one in expressions(part, ("spec", *base)):
                if re.fullmatch(r"-?\s*\.path\s*-?", one.inner):
                    yield Hit(
                        at=found,
                        path=one.path,
                        message=f"filling in template: `.path` is an object here: `{one.written}`",
                        fix="write `{{.path.path}}` or `{{.path.basename}}`",
                    )
