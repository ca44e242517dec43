"""Stacks of the Platform (4.12 and newer): tasks, their order and outputs.

Sources: the Platform's documentation of Stacks, its Go types, and the names that changed between the release
candidate and the release: `inputs` became `parameters`, a task's `taskTimeout` `timeout`, `{{ .tasks.x.outputs.y
}}` `{{ .Outputs.x.y }}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, unknown_name_hint
from provisioner.lint.joins.schedule import is_duration
from provisioner.lint.joins.stacks import Stack, every_stack
from provisioner.lint.joins.tenant import deployed_stacks, walk
from provisioner.lint.rule import Hit, Located, rule
from provisioner.lint.values import has_hole, is_known, items, literal, look, mapping
from provisioner.lint.world import World

_MAX_TASKS = 20
_OLD_HOLE = re.compile(r"\{\{[^}]*(\.(tasks|Tasks)\.|\.(inputs|Inputs)\.|\.outputs\.)[^}]*\}\}")
_OUTPUT = re.compile(r"\.Outputs\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
_PLAIN = re.compile(r"[A-Za-z0-9]+")


@rule("stack-name-of-candidate", Severity.ERROR)
def stack_name_of_candidate(world: World) -> Iterator[Hit]:
    """A stack uses names of the release candidate.

    Since 4.12.0 parameters are `parameters` (were `inputs`), a task's limit is `timeout` (was `taskTimeout`), and
    outputs are `{{ .Outputs.task.name }}` (were `{{ .tasks.task.outputs.name }}`). The old fields are refused, the
    old holes stay empty.
    """
    for stack in every_stack(world):
        if "inputs" in stack.value:
            message = "reading stack: `inputs` was renamed"
            yield Hit(at=stack.at, path=(*stack.path, "inputs"), message=message, fix="write `parameters`")
        for task in stack.tasks:
            if "taskTimeout" in task.value:
                message = f"reading stack: a task has no `taskTimeout`: `{task.name}`"
                yield Hit(at=stack.at, path=(*task.path, "taskTimeout"), message=message, fix="write `timeout`")
            for path, text in walk(task.value, task.path):
                if has_hole(text) and (found := _OLD_HOLE.search(text)):
                    fix = "write `{{ .Outputs.<task>.<name> }}`, and `{{ .Values.<variable> }}` for parameters"
                    message = f"reading stack: the hole's name is of before 4.12: `{found[0]}`"
                    yield Hit(at=stack.at, path=path, message=message, fix=fix)
    for at, place, value in _instances(world):
        if "inputs" in value:
            message = "giving parameters to stack: `inputs` was renamed"
            yield Hit(at=at, path=(*place, "inputs"), message=message, fix="write `parameters`")


@rule("stack-tasks-number", Severity.ERROR)
def stack_tasks_number(world: World) -> Iterator[Hit]:
    """A stack has no tasks, or more than 20.

    The Platform refuses more than 20 tasks (TemplateInvalid), and reports NoTasks for none.
    """
    for stack in every_stack(world):
        if not 1 <= len(stack.tasks) <= _MAX_TASKS and not has_hole(look(stack.value, "tasks")):
            message = f"reading stack: it wants 1 to {_MAX_TASKS} tasks, found {len(stack.tasks)}"
            fix = "put several steps into one Application with sync waves" if stack.tasks else "add `tasks`"
            yield Hit(at=stack.at, path=(*stack.path, "tasks"), message=message, fix=fix)


@rule("stack-task-name", Severity.ERROR)
def stack_task_name(world: World) -> Iterator[Hit]:
    """A task of a stack has no name, or one that another task has.

    Dependencies, outputs and the stack's status name tasks.
    """
    for stack in every_stack(world):
        seen: set[str] = set()
        for task in stack.tasks:
            name = look(task.value, "name")
            if not name or str(name) in seen:
                message = f"reading stack: {f'two tasks have the name: `{name}`' if name else 'a task has no name'}"
                yield Hit(at=stack.at, path=task.path, message=message, fix="give each task a name of its own")
            seen.add(str(name))


@rule("stack-dependency-unknown", Severity.ERROR)
def stack_dependency_unknown(world: World) -> Iterator[Hit]:
    """A task of a stack waits for a task that does not exist.

    `dependsOn` names tasks of the same stack. With an unknown one the template is invalid.
    """
    for stack in every_stack(world):
        for task in stack.tasks:
            for path, name in items(task.value, "dependsOn"):
                if isinstance(name, str) and not has_hole(name) and name not in stack.by_name:
                    message = f"ordering stack: task `{task.name}` waits for an unknown task: `{name}`"
                    fix = unknown_name_hint(name, stack.by_name)
                    yield Hit(at=stack.at, path=(*task.path, *path), message=message, fix=fix)


@rule("stack-dependency-cycle", Severity.ERROR)
def stack_dependency_cycle(world: World) -> Iterator[Hit]:
    """Tasks of a stack wait for each other.

    A task that is, through `dependsOn`, before itself never starts.
    """
    for stack in every_stack(world):
        found = next((task for task in stack.tasks if task.name and task.name in stack.before(task)), None)
        if found is not None:
            message = f"ordering stack: the task waits for itself: `{found.name}`"
            yield Hit(
                at=stack.at, path=(*found.path, "dependsOn"), message=message, fix="remove one of the dependencies"
            )


@rule("stack-task-source", Severity.ERROR)
def stack_task_source(world: World) -> Iterator[Hit]:
    """A task of a stack deploys two things or none.

    A task has `app` or `argoCDApplication`, and that has `template` or `templateRef`.
    """
    for stack in every_stack(world):
        for task in stack.tasks:
            forms = [key for key in ("app", "argoCDApplication") if is_known(task.value.get(key))]
            if len(forms) != 1:
                message = (
                    f"reading stack: task `{task.name}` wants `app` or `argoCDApplication`, found {len(forms)} of them"
                )
                yield Hit(at=stack.at, path=task.path, message=message, fix="keep one of them")
                continue
            inner = [key for key in ("template", "templateRef") if look(task.value, forms[0], key)]
            if len(inner) != 1:
                message = f"reading stack: `{forms[0]}` wants `template` or `templateRef`, found {len(inner)} of them"
                yield Hit(at=stack.at, path=(*task.path, forms[0]), message=message, fix="keep one of them")


@rule("stack-output-name", Severity.ERROR)
def stack_output_name(world: World) -> Iterator[Hit]:
    """A task with outputs, or one of its outputs, has a name that holes cannot name.

    `{{ .Outputs.task.name }}` is a Go template: both names must be letters and digits only, without hyphens.
    """
    for stack in every_stack(world):
        for task in stack.tasks:
            if task.outputs and task.name and not _PLAIN.fullmatch(task.name):
                message = f"naming task: with outputs it takes letters and digits only, found: `{task.name}`"
                yield Hit(at=stack.at, path=(*task.path, "name"), message=message, fix=_plain(task.name))
            for name, path in task.outputs.items():
                if not _PLAIN.fullmatch(name):
                    message = f"naming output: it takes letters and digits only, found: `{name}`"
                    yield Hit(at=stack.at, path=(*task.path, *path, "name"), message=message, fix=_plain(name))


def _plain(name: str) -> str:
    return f"call it `{re.sub(r'[^A-Za-z0-9]', '', name) or 'output'}`"


@rule("stack-output-source", Severity.ERROR)
def stack_output_source(world: World) -> Iterator[Hit]:
    """An output of a task comes from two places, from none, or from one that is not fully told.

    `fromSecret` has namespace, name and key; `fromResource` apiVersion, kind, name and jsonPath.
    """
    needed = {"fromSecret": ("name", "key"), "fromResource": ("apiVersion", "kind", "name", "jsonPath")}
    for stack in every_stack(world):
        for task in stack.tasks:
            for path, output in items(task.value, "outputs"):
                forms = [key for key in needed if look(output, key)]
                missing = [key for form in forms for key in needed[form] if not look(output, form, key)]
                if len(forms) != 1 or missing:
                    what = f"`{forms[0]}` without {', '.join(missing)}" if missing else f"{len(forms)} sources"
                    message = f"reading output: it wants `fromSecret` or `fromResource`, found {what}"
                    fix = "give it one source, completely"
                    yield Hit(at=stack.at, path=(*task.path, *path), message=message, fix=fix)


@rule("stack-output-unknown", Severity.ERROR)
def stack_output_unknown(world: World) -> Iterator[Hit]:
    """A stack uses an output that no task declares.

    `{{ .Outputs.task.name }}` and `publishedOutputs[].fromTask` name a task of the stack and an output of it;
    otherwise the hole stays empty, or the template is invalid.
    """
    for stack in every_stack(world):
        for path, task, output in _uses(stack):
            declared = stack.by_name[task].outputs if task in stack.by_name else {}
            if output not in declared:
                known = [f"{other.name}.{name}" for other in stack.tasks for name in other.outputs]
                message = f"using output: no task declares: `{task}.{output}`"
                yield Hit(at=stack.at, path=path, message=message, fix=unknown_name_hint(f"{task}.{output}", known))


def _uses(stack: Stack) -> Iterator[tuple[FieldPath, str, str]]:
    for task in stack.tasks:
        for path, text in walk(task.value, task.path):
            if has_hole(text):
                yield from ((path, found[1], found[2]) for found in _OUTPUT.finditer(text))
    for path, published in items(stack.value, "publishedOutputs"):
        task_name, output = literal(published, "fromTask", "task"), literal(published, "fromTask", "output")
        if task_name and output:
            yield (*stack.path, *path, "fromTask"), task_name, output


@rule("stack-output-not-awaited", Severity.ERROR)
def stack_output_not_awaited(world: World) -> Iterator[Hit]:
    """A task uses an output of a task that it does not wait for.

    Tasks without a dependency start together; the output is not there yet when the task is rendered.
    """
    for stack in every_stack(world):
        for task in stack.tasks:
            before = stack.before(task)
            for path, text in walk(task.value, task.path):
                for found in _OUTPUT.finditer(text) if has_hole(text) else ():
                    if found[1] in stack.by_name and found[1] not in before:
                        message = f"ordering stack: task `{task.name}` uses an output of: `{found[1]}`"
                        yield Hit(at=stack.at, path=path, message=message, fix=f"add `{found[1]}` to its dependsOn")


@rule("stack-timeout-malformed", Severity.ERROR)
def stack_timeout_malformed(world: World) -> Iterator[Hit]:
    """A timeout of a stack is no duration, or a hole.

    `timeout` and `defaults.taskTimeout` are Go durations such as 20m0s. They are typed fields: holes are not filled
    in there.
    """
    for stack in every_stack(world):
        for task in stack.tasks:
            found = look(task.value, "timeout")
            if is_known(found) and not (isinstance(found, str) and is_duration(found)):
                message = f"limiting task `{task.name}`: not a duration: `{found}`"
                yield Hit(at=stack.at, path=(*task.path, "timeout"), message=message, fix="write it like `20m0s`")
    for at, path, value in _instances(world):
        found = look(value, "defaults", "taskTimeout")
        if is_known(found) and not has_hole(found) and not (isinstance(found, str) and is_duration(found)):
            message = f"limiting tasks: not a duration: `{found}`"
            yield Hit(at=at, path=(*path, "defaults", "taskTimeout"), message=message, fix="write it like `15m0s`")


def _instances(world: World) -> Iterator[tuple[Located, FieldPath, Mapping[str, Any]]]:
    for instance in world.of_kind("StackInstance"):
        yield instance, ("spec",), mapping(instance.value, "spec")
    for tenant in world.tenants:
        for entry in deployed_stacks(tenant):
            yield tenant, entry.path, entry.value


@rule("stack-prune-policy", Severity.ERROR)
def stack_prune_policy(world: World) -> Iterator[Hit]:
    """What happens to the Applications of removed tasks is not told properly.

    `prunePolicy` is Retain (the default: they stay) or Prune.
    """
    for at, path, value in _instances(world):
        found = look(value, "prunePolicy")
        if is_known(found) and not has_hole(found) and found not in ("Retain", "Prune"):
            message = f"pruning stack: unknown policy: `{found}`"
            yield Hit(at=at, path=(*path, "prunePolicy"), message=message, fix="use Retain or Prune")


@rule("stack-destination-unclear", Severity.ERROR)
def stack_destination_unclear(world: World) -> Iterator[Hit]:
    """A StackInstance goes nowhere, to two places, or comes from two templates.

    It has one `destination`, a virtualCluster or a cluster, which cannot be changed, and `templateRef` or `template`.
    """
    for instance in world.of_kind("StackInstance"):
        spec = mapping(instance.value, "spec")
        places = [key for key in ("virtualCluster", "cluster") if look(spec, "destination", key)]
        forms = [key for key in ("templateRef", "template") if spec.get(key)]
        if spec and len(places) != 1:
            message = f"deploying stack: it wants one destination, found {len(places)}"
            fix = "set `destination.virtualCluster.name` or `destination.cluster.name`"
            yield Hit(at=instance, path=("spec", "destination"), message=message, fix=fix)
        if spec and len(forms) != 1:
            message = f"deploying stack: it wants `templateRef` or `template`, found {'both' if forms else 'neither'}"
            yield Hit(at=instance, path=("spec",), message=message, fix="keep one of them")
