"""Generators of ApplicationSets: what may stand in which, and what they choose."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.deliveries import tree_of
from provisioner.lint.joins.generated import Generated, files_of, filled_applications
from provisioner.lint.joins.selectors import selector
from provisioner.lint.joins.slips import meant
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.argocd._generators import KINDS, elements, generators, is_go, kinds
from provisioner.lint.values import has_hole, items, literal, look, mapping, text, texts
from provisioner.lint.world import Object, World

_TYPE_LABEL = "argocd.argoproj.io/secret-type"


def _sets(world: World) -> Iterator[tuple[Object, Mapping[str, Any]]]:
    for found in world.of_kind("ApplicationSet"):
        yield found, mapping(found.value, "spec")


@rule("applicationset-generator-twice", Severity.ERROR)
def applicationset_generator_twice(world: World) -> Iterator[Hit]:
    """One entry of the generators holds two of them, or none that Argo CD knows.

    Each entry is one generator; of several in one mapping all but one are passed over (applicationset, Matrix
    Generator, Restrictions).
    """
    for found in world.of_kind("ApplicationSet"):
        for path, generator, _ in generators(mapping(found.value, "spec")):
            held = kinds(generator)
            unknown = [key for key in generator if key not in (*KINDS, "selector")]
            if len(held) == 1 or (not held and not unknown):
                continue
            near = nearest_name(str(unknown[0]), KINDS) if unknown else None
            words = ", ".join(map(str, held or unknown))
            yield Hit(
                at=found,
                path=("spec", *path),
                message=f"reading generator: an entry holds one known kind: `{words}`",
                fix=f"write `{near}`" if near else "write one list entry for each, or join them in a `matrix`",
            )


@rule("applicationset-matrix-of-two", Severity.ERROR)
def applicationset_matrix_of_two(world: World) -> Iterator[Hit]:
    """A matrix does not join two generators.

    Argo CD joins exactly two; with one or three it generates nothing. Three are two matrices, one within the other.
    """
    for found in world.of_kind("ApplicationSet"):
        for path, generator, _ in generators(mapping(found.value, "spec")):
            if "matrix" in generator and isinstance(look(generator, "matrix", "generators"), list):
                count = len(generator["matrix"]["generators"])
                if count != 2:
                    yield Hit(
                        at=found,
                        path=("spec", *path, "matrix", "generators"),
                        message=f"joining generators: a matrix takes two, here are: `{count}`",
                        fix="join two generators; put a third one into a matrix within",
                    )


@rule("applicationset-nested-too-deep", Severity.ERROR)
def applicationset_nested_too_deep(world: World) -> Iterator[Hit]:
    """A matrix or merge stands within another one that is within a third.

    Argo CD allows one level of nesting (applicationset, Matrix Generator, Restrictions).
    """
    for found in world.of_kind("ApplicationSet"):
        for path, generator, depth in generators(mapping(found.value, "spec")):
            if depth > 1 and ("matrix" in generator or "merge" in generator):
                yield Hit(
                    at=found,
                    path=("spec", *path),
                    message=f"nesting generators: one level is allowed: `{kinds(generator)[0]}`",
                    fix="flatten the generators",
                )


@rule("applicationset-merge-keys", Severity.ERROR)
def applicationset_merge_keys(world: World) -> Iterator[Hit]:
    """A merge has no key that joins its generators.

    `mergeKeys` names parameters that every generator gives; without one, or with one generator only, Argo CD generates
    nothing, and elements without the key are passed over.
    """
    for found in world.of_kind("ApplicationSet"):
        for path, generator, _ in generators(mapping(found.value, "spec")):
            if not isinstance(generator.get("merge"), Mapping):
                continue
            keys = [item for _, item in items(generator, "merge", "mergeKeys") if isinstance(item, str)]
            children = [item for _, item in items(generator, "merge", "generators") if isinstance(item, Mapping)]
            lacking = next((key for key in keys for child in children if _lacks(child, key)), None)
            reason = "there are no `mergeKeys`" if not keys else f"a list has no `{lacking}`" if lacking else None
            reason = reason or ("it has fewer than two" if len(children) < 2 else None)
            if reason:
                yield Hit(
                    at=found,
                    path=("spec", *path, "merge"),
                    message=f"merging generators of application set `{found.name}`: {reason}",
                    fix="name a parameter in `mergeKeys` that every generator gives",
                )


def _lacks(generator: Mapping[str, object], key: str) -> bool:
    listed = elements(generator)
    return bool(listed) and not any(key in element or key.partition(".")[0] in element for element in listed)


@rule("applicationset-for-every-cluster", Severity.INFO)
def applicationset_for_every_cluster(world: World) -> Iterator[Hit]:
    """An ApplicationSet delivers to every cluster that Argo CD knows, its own included.

    `clusters: {}` has no selector: the local cluster counts, and each cluster that somebody registers later gets the
    Application at once (applicationset, Cluster Generator).
    """
    for found in world.of_kind("ApplicationSet"):
        for path, generator, _ in generators(mapping(found.value, "spec")):
            if (
                "clusters" in generator
                and not mapping(generator, "clusters", "selector")
                and "selector" not in generator
            ):
                yield Hit(
                    at=found,
                    path=("spec", *path, "clusters"),
                    message=f"choosing clusters: every one is chosen, the local one too: `{found.name}`",
                    fix="add `selector.matchLabels`",
                )


@rule("applicationset-one-destination", Severity.ERROR)
def applicationset_one_destination(world: World) -> Iterator[Hit]:
    """An ApplicationSet goes over clusters, and delivers the same thing to one and the same place each time.

    The destination names no parameter of the cluster generator (`{{.server}}` or `{{.name}}`), and the source neither:
    all Applications own the same objects in one cluster, and the clusters that were meant get nothing.
    """
    for found in world.of_kind("ApplicationSet"):
        spec = mapping(found.value, "spec")
        made = [one for _, one, _ in generators(spec)]
        inner = mapping(spec, "template", "spec")
        is_patched = bool(spec.get("templatePatch"))
        told = repr([inner.get(key) for key in ("destination", "source", "sources")])
        each = all("clusters" in one and look(one, "clusters", "flatList") is not True for one in made)
        if made and each and inner and "{{" not in told and not is_patched:
            message = f"generating applications of {found.name}: each delivers the same to one place"
            path = ("spec", "template", "spec", "destination")
            fix = 'write `server: "{{.server}}"` as the destination'
            yield Hit(at=found, path=path, message=f"{message}: `destination`", fix=fix)


@rule("applicationset-flat-list-without-go", Severity.ERROR)
def applicationset_flat_list_without_go(world: World) -> Iterator[Hit]:
    """A cluster generator hands over all clusters as one list, which only Go templates can read.

    `flatList: true` gives one parameter `clusters`, a list; plain replacement cannot go through it.
    """
    for found in world.of_kind("ApplicationSet"):
        spec = mapping(found.value, "spec")
        for path, generator, _ in generators(spec):
            if look(generator, "clusters", "flatList") is True and not is_go(spec):
                yield Hit(
                    at=found,
                    path=("spec", *path, "clusters", "flatList"),
                    message=f"reading list of clusters: it needs Go templates: `{found.name}`",
                    fix="set `goTemplate: true`",
                )


@rule("applicationset-patch-without-go", Severity.ERROR)
def applicationset_patch_without_go(world: World) -> Iterator[Hit]:
    """A template patch is used without Go templates, where it does not work.

    `templatePatch` needs `goTemplate: true` (applicationset, Template, Template Patch).
    """
    for found, spec in _sets(world):
        if spec.get("templatePatch") and not is_go(spec):
            yield Hit(
                at=found,
                path=("spec", "templatePatch"),
                message=f"patching template: it needs Go templates: `{found.name}`",
                fix="set `goTemplate: true`",
            )


@rule("applicationset-step-matches-nothing", Severity.WARNING)
def applicationset_step_matches_nothing(world: World) -> Iterator[Hit]:
    """A step of a progressive sync selects by a label that no generated Application has.

    The step holds nothing, and Applications that no step holds are not synced by the set at all (applicationset,
    Progressive Syncs). Of a set with lists the values are looked at too.
    """
    yield from _values_of_steps(world)
    for found, spec in _sets(world):
        labels = texts(spec, "template", "metadata", "labels")
        for path, step in items(spec, "strategy", "rollingSync", "steps"):
            for inner, expression in items(step, "matchExpressions"):
                key = text(expression, "key")
                if key and key not in labels and not any(has_hole(label) for label in labels):
                    yield Hit(
                        at=found,
                        path=("spec", *path, *inner, "key"),
                        message=f"selecting applications of a step: the template has no such label: `{key}`",
                        fix=f"add the label `{key}` to `spec.template.metadata.labels`",
                    )


def _values_of_steps(world: World) -> Iterator[Hit]:
    made: dict[int, list[Generated]] = {}
    for app in filled_applications(world):
        if isinstance(app, Generated):
            made.setdefault(id(app.at), []).append(app)
    for found, spec in _sets(world):
        for path, step in items(spec, "strategy", "rollingSync", "steps"):
            for inner, expression in items(step, "matchExpressions"):
                key = text(expression, "key")
                wanted = [item for _, item in items(expression, "values") if isinstance(item, str)]
                apps = made.get(id(found), []) if key and look(expression, "operator") == "In" else []
                given = [literal(app.template, "metadata", "labels", key or "") for app in apps]
                if given and None not in given and wanted and not {*wanted} & {*given}:
                    known = sorted({value for value in given if value})
                    near = nearest_name(wanted[0], known)
                    message = f"selecting applications of a step: none has `{key}` of this value: `{wanted[0]}`"
                    fix = f"did you mean {near}?" if near else f"write one of: {', '.join(known)}"
                    where = ("spec", *path, *inner, "values")
                    yield Hit(at=found, path=where, message=message, fix=fix)


@rule("applicationset-file-unknown", Severity.ERROR)
def applicationset_file_unknown(world: World) -> Iterator[Hit]:
    """A git generator looks for files in a folder that is there, and none of them fits.

    It makes no Application and says nothing; with an existing set it deletes all that were there. `config.yaml` and
    `config.yml` are two names.
    """
    tree = tree_of(world)
    for found, spec in _sets(world):
        for path, generator, _ in generators(spec):
            for inner, item in items(generator, "git", "files"):
                pattern = literal(item, "path") or ""
                above = pattern.partition("*")[0].rpartition("/")[0].strip("/")
                is_shown = bool(above) and tree.knows(above) and bool(world.files) and "**" not in pattern
                if is_shown and look(item, "exclude") is not True and not files_of(world, pattern):
                    message = f"generating applications of {found.name}: no file fits: `{pattern}`"
                    where = ("spec", *path, *inner, "path")
                    yield Hit(at=found, path=where, message=message, fix="correct the pattern, or add the files")


_PLAIN_FIELD = re.compile(r"\{\{-?\s*\.([\w-]+(?:\.[\w-]+)+)\s*-?\}\}")


@rule("applicationset-file-lacks-parameter", Severity.ERROR)
def applicationset_file_lacks_parameter(world: World) -> Iterator[Hit]:
    """A template reads a field that one of the files of its git generator does not have.

    With `missingkey=error` the set makes and updates no Application at all, for no file; without it the Application
    gets the text `<no value>`.
    """
    told = set()
    for app in filled_applications(world):
        holders = generators(mapping(app.at.value, "spec")) if isinstance(app, Generated) else ()
        if not isinstance(app, Generated) or not all(mapping(one, "git").get("files") for _, one, _ in holders):
            continue
        for path, written in _texts_of(app.template, ()):
            for name in _PLAIN_FIELD.findall(written):
                if not name.startswith("path.") and (id(app.at), name) not in told:
                    told.add((id(app.at), name))
                    message = f"filling in template: a file of the generator has no such field: `{name}`"
                    fix = "correct the name, or add the field to every file"
                    yield Hit(at=app.at, path=(*app.outer, *path), message=message, fix=fix)


def _texts_of(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    if isinstance(value, str):
        yield path, value
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _texts_of(item, (*path, key))


@rule("applicationset-folder-unknown", Severity.ERROR)
def applicationset_folder_unknown(world: World) -> Iterator[Hit]:
    """A git generator looks for folders below one that is not there, but one of nearly that name is.

    It finds nothing, makes no Application, and says nothing; with an existing set it deletes all that were there.
    """
    tree = tree_of(world)
    for found, spec in _sets(world):
        for path, generator, _ in generators(spec):
            for inner, item in items(generator, "git", "directories"):
                above = (literal(item, "path") or "").partition("*")[0].strip("/")
                name = above.rpartition("/")[2]
                if not above or look(item, "exclude") is True or tree.knows(above):
                    continue
                parent = tree.find(above.rpartition("/")[0]) if "/" in above else None
                home = PurePosixPath(found.folder or ".")
                around = [parent] if parent else [str(one) for one in (home, *home.parents)][:3]
                near = meant(name, [other for one in around for other in tree.neighbours(one)])
                if near:
                    message = f"generating applications of {found.name}: there is no such folder: `{above}`"
                    where = ("spec", *path, *inner, "path")
                    yield Hit(at=found, path=where, message=message, fix=f"did you mean {near}?")


@rule("applicationset-selects-no-cluster", Severity.WARNING)
def applicationset_selects_no_cluster(world: World) -> Iterator[Hit]:
    """A cluster generator selects none of the clusters that the folder shows.

    It goes by the labels of the Secrets of type cluster. Without a match there is no Application, and nothing is
    reported; clusters that the folder does not show may match.
    """
    clusters = [one.labels for one in world.of_kind("Secret") if one.labels.get(_TYPE_LABEL) == "cluster"]
    for found, spec in _sets(world) if clusters else ():
        for path, generator, _ in generators(spec):
            chosen = selector(look(generator, "clusters", "selector"))
            if chosen is None or not chosen.is_certain or chosen.is_empty:
                continue
            if not any(chosen.matches(labels) for labels in clusters):
                message = f"generating applications of {found.name}: no cluster here is selected: `{chosen}`"
                own = sorted(f"{key}={value}" for key, value in clusters[0].items() if key != _TYPE_LABEL)
                fix = f"correct the selector: a cluster here has {', '.join(own) or 'no labels'}"
                where = ("spec", *path, "clusters", "selector")
                yield Hit(at=found, path=where, message=message, fix=fix)


@rule("applicationset-generates-nothing", Severity.WARNING)
def applicationset_generates_nothing(world: World) -> Iterator[Hit]:
    """A generator has nothing to generate from.

    An empty list, a matrix with one, or a git generator without folders and files gives no Application, and says
    nothing; with an existing set it deletes all that were there.
    """
    for found, spec in _sets(world):
        if spec.get("generators") == []:
            yield _empty(found, ("spec", "generators"), "generators")
        for path, generator, _ in generators(spec):
            written = mapping(generator, "list")
            if written.get("elements") == [] and not written.get("elementsYaml"):
                yield _empty(found, ("spec", *path, "list", "elements"), "list.elements")
            git = mapping(generator, "git")
            if git and not git.get("directories") and not git.get("files"):
                yield _empty(found, ("spec", *path, "git"), "git")


def _empty(found: Object, path: FieldPath, what: str) -> Hit:
    return Hit(
        at=found,
        path=path,
        message=f"generating applications of {found.name}: there is nothing to do it from: `{what}`",
        fix="name elements, folders or files",
    )


@rule("applicationset-name-invalid", Severity.ERROR)
def applicationset_name_invalid(world: World) -> Iterator[Hit]:
    """The name of generated Applications holds letters that no name may have.

    What stands around the parameters is in every name: capital letters, underscores and slashes are refused by the API
    server, and so is a name that begins or ends with a dash or a dot.
    """
    for found, spec in _sets(world):
        written = text(spec, "template", "metadata", "name")
        bare = re.sub(r"\{\{[^{}]{0,200}\}\}", "a", written or "")
        if bare and "{{" not in bare and not re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", bare):
            yield Hit(
                at=found,
                path=("spec", "template", "metadata", "name"),
                message=f"naming generated applications: no object may be called so: `{written}`",
                fix="use lower-case letters, digits and dashes",
            )
