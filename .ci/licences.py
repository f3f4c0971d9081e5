#!/usr/bin/env python3
"""Licences of all crates that are linked: each must allow one that deny.toml lists, or be an exception there.

    .ci/licences.py              check; prints the third-party notices with --notices
    .ci/licences.py --self-test  the check must fail for a licence that is not listed
"""

import json
import subprocess
import sys
import tomllib


def allowed(expression, licences):
    """Whether an SPDX expression of names, OR and AND (older: /) can be met."""
    expression = expression.replace("/", " OR ").replace("(", " ").replace(")", " ")
    met = lambda part: all(name.strip() in licences for name in part.split(" AND "))
    return any(met(part) for part in expression.split(" OR "))


def main():
    rules = tomllib.load(open("deny.toml", "rb"))["licenses"]
    listed = set(rules["allow"])
    special = {e["crate"]: listed | set(e["allow"]) for e in rules["exceptions"]}
    if "--self-test" in sys.argv:
        assert allowed("MIT OR GPL-3.0", listed) and allowed("MIT/Apache-2.0", listed)
        assert not allowed("GPL-3.0-only", listed) and not allowed("MIT AND GPL-3.0", listed)
        return 0
    command = ["cargo", "metadata", "--format-version", "1", "--all-features", "--locked"]
    packages = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["packages"]
    others = [p for p in packages if p["source"]]
    assert len(others) > 20, "no dependencies found"
    refused = [
        f"{p['name']} {p['version']}: {p['license']}"
        for p in others
        if not allowed(p["license"] or "none", special.get(p["name"], listed))
    ]
    if "--notices" in sys.argv:
        for p in others:
            print(f"{p['name']} {p['version']}: {p['license']}; {p['repository'] or p['id']}")
    elif refused:
        print("licences that deny.toml does not list:", *refused, sep="\n  ")
    else:
        print(f"{len(others)} crates, all under listed licences")
    return 1 if refused else 0


sys.exit(main())
