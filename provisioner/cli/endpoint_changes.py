"""`tenantry endpoint update`, `scale` and the other verbs that change one that is there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from provisioner.cli.operation import Following, MatchOption, follow_to_end, require_success
from provisioner.cli.options import add_command
from provisioner.cli.output import Format, print_error, print_fields, print_json, say
from provisioner.cli.references import ReferenceArgument
from provisioner.cli.session import send
from provisioner.domain.errors import RejectedError

PatchOption = Annotated[
    Path | None, typer.Option("--file", "-f", metavar="PATCH.yaml", help="Fields of REQUEST.yaml that change, or -.")
]
ModelOption = Annotated[str | None, typer.Option("--model", help="Another model, by its id.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="One field, such as serving.maxModelLen=8192; null takes away."),
]
MinOption = Annotated[int | None, typer.Option("--min", min=0, help="Replicas at least; 0 lets it sleep.")]
MaxOption = Annotated[int | None, typer.Option("--max", min=1, help="Replicas at most.")]
DeadlineOption = Annotated[
    int | None, typer.Option("--deadline", min=0, max=120, help="Seconds for requests that run; 120 when left out.")
]
KeyOption = Annotated[str | None, typer.Option("--key", help="Replace only this key, by its id, key-….")]
OverlapOption = Annotated[
    int | None, typer.Option("--overlap", min=0, help="Seconds that the old keys go on; 300 when left out.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb(Following):
    """What every verb of an endpoint is told."""

    reference: ReferenceArgument
    if_match: MatchOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(Verb):
    """What changes."""

    file: PatchOption = None
    model: ModelOption = None
    assignments: SetOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(Verb):
    """The bounds."""

    least: MinOption = None
    most: MaxOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain(Verb):
    """How long requests may go on."""

    deadline: DeadlineOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation(Verb):
    """Which key, and how long the old one goes on."""

    key_id: KeyOption = None
    overlap: OverlapOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaim(Following):
    """What is reclaimed."""

    reference: ReferenceArgument


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add_command(app, "update", Update, update_endpoint)
    add_command(app, "scale", Scale, scale_endpoint)
    add_command(app, "warm", Verb, warm_endpoint)
    add_command(app, "restart", Verb, restart_endpoint)
    add_command(app, "rotate-key", Rotation, rotate_endpoint_key)
    add_command(app, "drain", Drain, drain_endpoint)
    add_command(app, "reclaim", Reclaim, reclaim_endpoint)


def update_endpoint(options: Update) -> None:
    """Change what an endpoint runs: another model, other parameters. What is not named stays.

    The new revision is proven beside the old one before it takes over. Without anything named, the endpoint is brought
    up to date with the catalog.

    \b
    Examples:
      tenantry endpoint update acme/chat --set serving.maxModelLen=8192 --wait
      tenantry endpoint update acme/chat --model gemma-3-270m
      tenantry endpoint update acme/chat -f PATCH.yaml
    """
    from provisioner.cli.assignments import assigned
    from provisioner.cli.requestfile import read_request
    from provisioner.client import endpoint_calls

    hint = "a PATCH.yaml holds the fields of REQUEST.yaml that change, for example `serving: {maxModelLen: 8192}`"
    file = read_request(options.file, hint=hint) if options.file else None
    patch = dict(file.body) if file else {}
    if options.model is not None:
        patch["model"] = options.model
    patch = assigned(patch, options.assignments or ())
    call = endpoint_calls.update_endpoint(
        options.reference, patch, idempotency_key=options.key, if_match=options.if_match
    )
    try:
        operation = send(call)
    except RejectedError as error:
        print_error(error, file=file.name if file else None, lines=file.lines if file else None)
        raise typer.Exit(1) from error
    options.finish(operation)


def scale_endpoint(options: Scale) -> None:
    """Change the bounds on an endpoint's replicas. A bound that is not named stays, and no pod is made anew.

    Example: tenantry endpoint scale acme/chat --min 1 --max 4 --wait
    """
    from provisioner.client import endpoint_calls
    from provisioner.client.call import present

    bounds = present({"minReplicas": options.least, "maxReplicas": options.most})
    call = endpoint_calls.scale_endpoint(
        options.reference, bounds, idempotency_key=options.key, if_match=options.if_match
    )
    options.finish(send(call))


def warm_endpoint(options: Verb) -> None:
    """Wake an endpoint that sleeps, or bring back one that was drained.

    Example: tenantry endpoint warm acme/chat --wait
    """
    from provisioner.client import endpoint_calls

    call = endpoint_calls.warm_endpoint(options.reference, idempotency_key=options.key, if_match=options.if_match)
    options.finish(send(call))


def restart_endpoint(options: Verb) -> None:
    """Replace every pod, one after another, on the same volumes and under the same URL.

    Example: tenantry endpoint restart acme/chat --wait
    """
    from provisioner.client import endpoint_calls

    call = endpoint_calls.restart_endpoint(options.reference, idempotency_key=options.key, if_match=options.if_match)
    operation = send(call)
    if operation.hint:
        say(f"hint: {operation.hint}")
    options.finish(operation)


def drain_endpoint(options: Drain) -> None:
    """Take an endpoint out of service: no new requests, those that run end, then no replica runs until it is warmed.

    Example: tenantry endpoint drain acme/chat --deadline 60 --wait
    """
    from provisioner.client import endpoint_calls

    call = endpoint_calls.drain_endpoint(
        options.reference,
        deadline_seconds=options.deadline,
        idempotency_key=options.key,
        if_match=options.if_match,
    )
    options.finish(send(call))


def rotate_endpoint_key(options: Rotation) -> None:
    """Give an endpoint another key and print it, this one time. The old ones stop when the overlap is over.

    Example: tenantry endpoint rotate-key acme/chat --overlap 3600
    """
    from provisioner.client import endpoint_calls

    call = endpoint_calls.rotate_endpoint_key(
        options.reference,
        key=options.key_id,
        overlap_seconds=options.overlap,
        idempotency_key=options.key,
        if_match=options.if_match,
    )
    rotated = send(call)  # printed before it is followed: whoever stops waiting keeps the secret
    replaced = [{"key": old.id, "stops": old.expires_at} for old in rotated.replaced]
    told = {"key": rotated.key.id, **({"replaced": replaced} if replaced else {})}
    if options.output is Format.JSON:
        print_json(rotated.model_dump(mode="json", by_alias=True))
    else:
        print_fields({"secret": rotated.secret, **told, "operation": rotated.id})
    say(f"hint: {rotated.hint or 'keep the secret now, it cannot be shown again'}")
    if options.wait:
        require_success(follow_to_end(rotated, options.timeout))


def reclaim_endpoint(options: Reclaim) -> None:
    """Remove whatever is left of an endpoint that was given up; it succeeds when a look finds nothing more.

    Example: tenantry endpoint reclaim ep-7f3a9c2b1d --wait
    """
    from provisioner.client import endpoint_calls

    options.finish(send(endpoint_calls.reclaim_endpoint(options.reference, idempotency_key=options.key)))
