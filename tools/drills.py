"""Fills the table of drills in docs/drills.md from scenarios/drills/, or checks it.

It also refuses a page that leaves out a kind of load, a step or a bound.

Usage: python tools/drills.py [--check]

Exit status: 0 written, or current; 1 stale (--check), or something is left out.
"""

import re
import sys
from pathlib import Path

from crdtstream.drill.drill import Drill, MustHold
from crdtstream.drill.parse import load

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "drills.md"
DRILLS = ROOT / "scenarios" / "drills"

_BLOCK = re.compile(r"(<!-- drills -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """The page with its table written again."""
    rows = ["| drill | shows | alerts |\n| --- | --- | --- |\n"]
    for path in sorted(DRILLS.glob("*.yaml")):
        drill = load(path)
        alerts = ", ".join(f"`{name}`" for name in drill.alerts or ()) or "none"
        link = f"[`{path.stem}`](../scenarios/drills/{path.name})"
        rows.append(f"| {link} | {drill.about.strip()} | {alerts} |\n")
    return _BLOCK.sub(lambda block: block[1] + "".join(rows) + block[2], text)


def left_out(text: str) -> list[str]:
    """Words of drill files that the page does not tell of."""
    properties = Drill.model_json_schema()["properties"]
    words = [
        *properties["load"]["items"]["discriminator"]["mapping"],
        *properties["steps"]["items"]["discriminator"]["mapping"],
        *MustHold.model_fields,
    ]
    return [word for word in words if f"`{word}`" not in text]


def main() -> int:
    text = PAGE.read_text(encoding="utf-8")
    wanted = filled(text)
    status = 0
    for word in left_out(wanted):
        print(f"{PAGE.name} leaves out `{word}`", file=sys.stderr)
        status = 1
    if text == wanted:
        return status
    if "--check" in sys.argv[1:]:
        print(f"{PAGE.name} is stale: make docs", file=sys.stderr)
        return 1
    PAGE.write_text(wanted, encoding="utf-8")
    print(f"{PAGE.name}: written")
    return status


if __name__ == "__main__":
    sys.exit(main())
