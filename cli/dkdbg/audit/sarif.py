"""Write findings as SARIF 2.1.0, which GitHub code scanning and other tools read.

Source: the OASIS standard "Static Analysis Results Interchange Format (SARIF) Version 2.1.0".
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dkdbg.audit.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.audit.rules import Finding

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"


def report(
    findings: Sequence[Finding], *, version: str, notes: Sequence[str], failed: str = ""
) -> dict[str, Any]:
    """Return the SARIF log of an audit.

    Args:
        notes: texts about files that were not read.
        failed: why the audit ended without a result; empty if it completed.
    """
    numbers = {rule: number for number, rule in enumerate(RULES)}
    rules = [
        {
            "id": rule.id,
            "shortDescription": {"text": rule.title},
            "help": {"text": rule.todo},
            "defaultConfiguration": {"level": rule.level},
        }
        for rule in RULES.values()
    ]
    invocation = {
        "executionSuccessful": not failed,
        "toolExecutionNotifications": [
            {"level": level, "message": {"text": each}}
            for level, each in (*(("note", each) for each in notes), ("error", failed))
            if each
        ],
    }
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "dkdbg audit", "semanticVersion": version, "rules": rules}},
                "invocations": [invocation],
                "columnKind": "unicodeCodePoints",
                "results": [_result(each, numbers[each.rule]) for each in findings],
            }
        ],
    }


def _result(finding: Finding, number: int) -> dict[str, Any]:
    # SARIF 2.1.0, section 3.4.4: no uriBaseId beside an absolute URI. Files outside the repository need one, because
    # readers do not open a relative URI that leaves its base.
    place = {"uri": finding.uri} if finding.uri else {"uri": quote(finding.path), "uriBaseId": "%SRCROOT%"}
    return {
        "ruleId": finding.rule,
        "ruleIndex": number,
        "level": RULES[finding.rule].level,
        "message": {"text": f"{finding.message}. {RULES[finding.rule].todo}"},
        "locations": [
            {"physicalLocation": {"artifactLocation": place, "region": {"startLine": finding.line}}}
        ],
        # The fingerprint has no line number, so that a finding is recognised after lines are added above it.
        "partialFingerprints": {
            "dkdbg/v1": hashlib.sha256(
                f"{finding.path}\0{finding.rule}\0{finding.message}".encode()
            ).hexdigest()
        },
    }
