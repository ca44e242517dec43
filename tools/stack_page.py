"""The reference page about stack config. Written by `reference.py`."""

from __future__ import annotations

from stacks.keys import KEYS, PROGRAMS, PROJECT


def stacks_page() -> str:
    """Every key of a stack's config, by the program that reads it."""
    lines = [
        "# Stack config",
        "",
        "Keys of `Pulumi.<stack>.yaml`. A secret is set with `pulumi config set --secret`; one in clear is refused. "
        "[Publish with Pulumi](../how-to/pulumi.md) tells where to start.",
        "",
        "| key | program | required | secret | meaning |",
        "|---|---|---|---|---|",
    ]
    for name, key in KEYS.items():
        programs = ", ".join(program for program in PROGRAMS if program in key.programs)
        required, secret = ("yes" if said else "" for said in (key.is_required, key.is_secret))
        lines.append(f"| `{PROJECT}:{name}` | {programs} | {required} | {secret} | {key.meaning} |")
    return "\n".join([*lines, ""])
