"""pip's report of what it would install -> the lines of requirements.lock: ``name==version`` and the file's hash.

Reads the report from standard input, writes pins in alphabetical order. Only names, versions and hashes are taken over:
no address of the registry that answered.
"""

from __future__ import annotations

import json
import sys

HEADER = """\
# What `make lock` found to fit pyproject.toml, for CPython 3.11 on Linux x86-64. See CONTRIBUTING.md.
# Install with: pip install --require-hashes -r requirements.lock
"""


def main() -> None:
    """Everything but the package itself, which comes from a folder and has no archive."""
    report = json.load(sys.stdin)
    found = [each for each in report["install"] if "archive_info" in each["download_info"]]
    pins = []
    for each in found:
        sha256 = each["download_info"]["archive_info"]["hashes"]["sha256"]
        pins.append(
            f"{each['metadata']['name'].lower()}=={each['metadata']['version']} \\\n    --hash=sha256:{sha256}\n"
        )
    sys.stdout.write(HEADER + "".join(sorted(pins)))


if __name__ == "__main__":
    main()
