"""The names of all functions that Helm knows: a template that calls another one is refused. Pure.

Sources: https://pkg.go.dev/text/template#hdr-Functions, Sprig 3 (https://masterminds.github.io/sprig/) and Helm's own
(https://helm.sh/docs/chart_template_guide/function_list/).
"""

from __future__ import annotations

from provisioner.lint.go_templates.texts import TEXT_FUNCTIONS
from provisioner.lint.go_templates.values import VALUE_FUNCTIONS

LAZY = frozenset({"and", "or"})
"""Functions that look at their arguments one by one."""
OF_THE_CHART = frozenset({"include", "tpl", "required", "fail"})
"""Functions of Helm that need the chart, or end the rendering."""
IMPLEMENTED = {**TEXT_FUNCTIONS, **VALUE_FUNCTIONS}
"""Functions by name; each of Sprig's `must…` does the same as the one without, where there is no error."""

_MUST = """
append chunk compact dateModify deepCopy first fromJson has initial last merge mergeOverwrite prepend push regexFind
regexFindAll regexMatch regexReplaceAll regexReplaceAllLiteral regexSplit rest reverse slice toDate toDuration toJson
toPrettyJson toRawJson uniq without toYaml fromYaml toToml fromToml
"""
_OTHERS = """
add1f addf adler32sum ago b32dec b32enc base bcrypt biggest bytes buildCustomCert call chunk clean date dateInZone
dateModify date_in_zone date_modify decryptAES derivePassword dir divf duration durationRound encryptAES env expandenv
ext fromToml genCA genCAWithKey genPrivateKey genSelfSignedCert genSelfSignedCertWithKey genSignedCert
genSignedCertWithKey getHostByName hello html htmlDate htmlDateInZone htpasswd isAbs js maxf minf mulf must_date_modify
now osBase osClean osDir osExt osIsAbs push randAlpha randAlphaNum randAscii randBytes randInt randNumeric regexFindAll
regexQuoteMeta regexSplit semver sha512sum shuffle splitn subf swapcase toDate toDecimal toDuration toToml toYamlPretty
trimall typeIsLike unixEpoch urlJoin urlParse urlquery uuidv4 wrap wrapWith
"""
KNOWN = frozenset([*IMPLEMENTED, *LAZY, *OF_THE_CHART, *_OTHERS.split()]) | {
    f"must{name[0].upper()}{name[1:]}" for name in _MUST.split()
}
"""The name of every function."""


def function_of(name: str) -> str:
    """The function that does what a name says."""
    bare = name.removeprefix("must")
    return bare[:1].lower() + bare[1:] if bare != name and bare[:1].isupper() else name
