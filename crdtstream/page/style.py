"""Style of a page: light and dark, on a desk and on a phone."""

from collections.abc import Sequence
from typing import Final

# Eight colours that readers with colour blindness can distinguish, in both modes.
LIGHT: Final = (
    *("#0072b2", "#d55e00", "#00845f", "#b3478a"),
    *("#a06c00", "#2f8fd0", "#6d6a00", "#555555"),
)
_DARK: Final = (
    *("#5fb6f0", "#ff9a57", "#3ad6a2", "#f29fce"),
    *("#ffc64d", "#9cd3f7", "#e0d561", "#c9c9c9"),
)


def _colours(found: Sequence[str]) -> str:
    return "".join(f"--c{at}:{colour};" for at, colour in enumerate(found))


_SERIES: Final = "".join(
    f".s{at}{{stroke:var(--c{at});fill:var(--c{at});background:var(--c{at})}}"
    for at in range(len(LIGHT))
)

STYLE: Final = (
    f"""
:root{{color-scheme:light dark;--back:#fbfbfa;--card:#fff;--text:#1c2127;--quiet:#5d6772;
--line:#dfe3e8;--link:#00609a;--good:#0a7a4b;--warn:#9a5b00;--bad:#b3261e;
--l0:#e3f4ea;--l1:#eef4d8;--l2:#fff0cf;--l3:#ffdfc4;--l4:#ffd3cf;{_colours(LIGHT)}}}
@media (prefers-color-scheme:dark){{:root{{--back:#14171a;--card:#1c2024;--text:#e6e9ec;
--quiet:#9aa5b1;--line:#30373e;--link:#7cc4f5;--good:#4fcf94;--warn:#f0b054;--bad:#ff8a80;
--l0:#173325;--l1:#2a3216;--l2:#3f3311;--l3:#48290f;--l4:#4f1f1b;{_colours(_DARK)}}}}}
"""
    + _SERIES
    + """
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem;max-width:72rem;background:var(--back);color:var(--text);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
overflow-wrap:anywhere}
h1{font-size:1.6rem;margin:0}
h2{font-size:1.25rem;margin:2.2rem 0 .4rem}
h3{font-size:1.05rem;margin:0 0 .3rem}
h4{font-size:.9rem;font-weight:600;margin:1rem 0 .3rem;color:var(--quiet)}
header p,.note,footer{color:var(--quiet);margin:.2rem 0 .7rem}
a{color:var(--link)}
nav{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem}
footer{margin-top:2.5rem;border-top:1px solid var(--line);padding-top:.8rem;font-size:.85rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.7rem;
margin-top:1.2rem}
article .tiles{grid-template-columns:repeat(auto-fit,minmax(7.4rem,1fr));margin-top:.7rem}
article>h2:first-child{margin-top:0}
.tile,article,.scroll{background:var(--card);border:1px solid var(--line);border-radius:10px}
.tile{padding:.7rem .9rem;display:flex;flex-direction:column}
.tile b{font-size:1.5rem;line-height:1.2;font-variant-numeric:tabular-nums}
.tile span{color:var(--quiet);font-size:.82rem}
.good b{color:var(--good)}.warn b{color:var(--warn)}.bad b{color:var(--bad)}
article{padding:1rem;margin:1rem 0;scroll-margin-top:.5rem}
.scroll{overflow-x:auto;margin:.6rem 0;max-width:100%}
article .scroll{max-height:26rem;overflow-y:auto}
article .whole .scroll{max-height:none}
table{border-collapse:collapse;width:100%;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{padding:.35rem .7rem;text-align:right;border-bottom:1px solid var(--line);
vertical-align:top;white-space:nowrap}
tbody tr:last-child td{border-bottom:0}
th{color:var(--quiet);font-weight:600;vertical-align:bottom}
thead th{position:sticky;top:0;background:var(--card)}
.text{text-align:left}
td.text{white-space:normal;overflow-wrap:break-word;min-width:7rem;max-width:26rem}
td.long{min-width:17rem}
td.time{white-space:nowrap}
td:empty{min-width:0}
.matrix{width:auto;margin:.4rem}
.matrix td{text-align:center;min-width:5rem;border:3px solid var(--card);border-radius:6px}
.matrix tr:last-child td{border-bottom:3px solid var(--card)}
.l0{background:var(--l0)}.l1{background:var(--l1)}.l2{background:var(--l2)}
.l3{background:var(--l3)}.l4{background:var(--l4)}.none{color:var(--quiet)}
.plot{margin:.2rem 0}
svg{display:block;width:100%;height:auto}
svg.spark{width:96px;height:22px}
.grid{stroke:var(--line);stroke-width:1}
.label{fill:var(--quiet);font-size:9px}
.end{text-anchor:end}.middle{text-anchor:middle}
path.line{fill:none;stroke-width:1.7;stroke-linejoin:round}
.band{fill:var(--c0);opacity:.12}
.span{fill:var(--bad);opacity:.1}
.mark{stroke:var(--quiet);stroke-width:1;stroke-dasharray:3 3}
.mark.bad{stroke:var(--bad);stroke-dasharray:none}
.mark.good{stroke:var(--good);stroke-dasharray:none}
.mark-number{font-weight:600}
.mark-number.bad{fill:var(--bad)}.mark-number.good{fill:var(--good)}
.words{font-weight:400}
.passed{color:var(--good)}.failed{color:var(--bad)}.aborted{color:var(--warn)}
.verdict{font-weight:600}
.lines{white-space:pre-wrap}
figcaption{display:flex;flex-wrap:wrap;gap:.1rem 1rem;font-size:.82rem;color:var(--quiet)}
figcaption i{display:inline-block;width:.8em;height:.8em;border-radius:3px;margin-right:.4em}
details{margin:.4rem 0}
summary{cursor:pointer;color:var(--link);font-size:.85rem}
dl{display:grid;grid-template-columns:minmax(4rem,auto) 1fr;gap:0 .7rem;margin:0}
dt{color:var(--quiet)}
dd{margin:0;white-space:pre-wrap}
@media (max-width:60rem){.label{font-size:12px}.words{display:none}}
@media (max-width:40rem){
body{padding:.9rem}
.tiles,article .tiles{grid-template-columns:1fr 1fr}
.tile b{font-size:1.25rem}
article{padding:.7rem}
.label{font-size:18px}
td.text{max-width:60vw}
path.line{stroke-width:2.6}
}
@media print{.scroll,article .scroll{overflow:visible;max-height:none}}
"""
)
