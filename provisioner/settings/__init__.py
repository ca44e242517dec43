"""The environment, read once into frozen values. Nothing else in the package reads `os.environ`.

`installation` is what the server and the command line take from it, `gateway` what a gateway does. The tables of
variables are what docs/reference/settings.md is generated from.
"""

from provisioner.settings.installation import (
    VARIABLES,
    Settings,
    names_server,
    read_api_key,
    read_gateway_key,
    read_operator_key,
    read_settings,
)
from provisioner.settings.values import Listen, parse_listen

__all__ = [
    "VARIABLES",
    "Listen",
    "Settings",
    "names_server",
    "parse_listen",
    "read_api_key",
    "read_gateway_key",
    "read_operator_key",
    "read_settings",
]
