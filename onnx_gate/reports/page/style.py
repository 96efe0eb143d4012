"""The style of the page, in light and dark: system fonts, no picture and no font to load."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --text: light-dark(#1f2328, #e6edf3); --quiet: light-dark(#59636e, #9ba5b0); --page: light-dark(#fff, #0d1117);
  --soft: light-dark(#f6f8fa, #161b22); --line: light-dark(#d1d9e0, #30363d); --link: light-dark(#0950b0, #6cb6ff);
  --good: light-dark(#1a7f37, #56d364); --bad: light-dark(#c4212d, #ff7b72); --warn: light-dark(#8a5a00, #e3b341);
  --good-soft: light-dark(#dafbe1, #12261e); --bad-soft: light-dark(#ffebe9, #2d1316);
  --blue: light-dark(#3b78d8, #6ca4f8); --grey: light-dark(#8c959f, #768390);
}
:root[data-theme=light] { color-scheme: light; } :root[data-theme=dark] { color-scheme: dark; }
* { box-sizing: border-box; }
html { scroll-padding-top: 7rem; }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif;
  overflow-wrap: anywhere; }
main, .top > div, footer { max-width: 80rem; margin: 0 auto; padding: 0 1rem; }
.about { color: var(--quiet); font-size: .9rem; margin: .6rem 0 0; }
.skip { position: absolute; left: -100rem; }
.skip:focus { left: 1rem; top: .5rem; z-index: 3; background: var(--page); padding: .3rem .6rem; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
a { color: var(--link); }
.top { position: sticky; top: 0; z-index: 2; background: var(--page); border-bottom: 1px solid var(--line);
  padding: .7rem 0; }
.top > div { display: grid; grid-template-columns: 1fr auto; gap: .4rem 1rem; align-items: start; }
.top.bad { border-top: 4px solid var(--bad); } .top.good { border-top: 4px solid var(--good); }
.top.warn { border-top: 4px solid var(--warn); }
h1 { font-size: 1.2rem; line-height: 1.3; margin: 0; }
.counts { display: flex; flex-wrap: wrap; gap: .3rem .6rem; list-style: none; margin: 0; padding: 0; }
.theme { grid-area: 1 / 2; white-space: nowrap; } .theme[hidden] { display: none; }
.counts li { border: 1px solid var(--line); border-radius: 1rem; padding: 0 .7rem; font-size: .9rem; }
.counts button { border: 0; padding: 0; background: none; }
.counts li:has([aria-pressed=true]) { border-color: currentColor; }
.v-diverged, .v-error, .v-not-run { color: var(--bad); } .v-passed { color: var(--good); }
.v-skipped { color: var(--quiet); }
.v-allowed { color: var(--warn); }
.counts .v-diverged, .counts .v-error, .counts .v-not-run { background: var(--bad-soft); }
.counts .v-passed { background: var(--good-soft); }
#filters { display: flex; flex-wrap: wrap; gap: .5rem .8rem; align-items: center; margin: 1rem 0 .5rem; }
#filters[hidden] { display: none; }
#filters label, .theme { color: var(--quiet); font-size: .9rem; }
select, input, button { font: inherit; color: inherit; background: var(--soft); border: 1px solid var(--line);
  border-radius: .4rem; padding: .2rem .5rem; max-width: 100%; }
select, input { color: var(--text); } button { cursor: pointer; } button:disabled { opacity: .5; cursor: default; }
#filters label:has(#find) { display: flex; gap: .4rem; align-items: center; flex: 1 1 12rem; white-space: nowrap; }
#find { flex: 1; min-width: 6rem; } #shown { color: var(--quiet); font-size: .9rem; }
.scroll { overflow-x: auto; margin: .8rem 0; max-width: 100%; --shade: light-dark(#0003, #fff3);
  background: linear-gradient(90deg, var(--page) 1rem, #0000) 0 / 3rem 100% no-repeat local,
    linear-gradient(270deg, var(--page) 1rem, #0000) 100% / 3rem 100% no-repeat local,
    linear-gradient(90deg, var(--shade), #0000) 0 / .7rem 100% no-repeat scroll,
    linear-gradient(270deg, var(--shade), #0000) 100% / .7rem 100% no-repeat scroll; }
table { border-collapse: collapse; font-size: .92rem; }
#models { width: 100%; } #models td { white-space: nowrap; }
#models td:nth-child(2):not(.r) { white-space: normal; min-width: 13rem; }
#models th, #models td { padding: .35rem .5rem; } #models tbody th { min-width: 8rem; }
#models thead th:first-child { width: 19%; } #models thead th:nth-child(2):not(.r) { width: 45%; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .7rem; text-align: left; vertical-align: top; }
thead th, thead td { background: var(--soft); white-space: nowrap; }
td, tbody th { font-variant-numeric: tabular-nums; overflow-wrap: normal; }
thead:not(:has(th)) { display: none; } tbody th { font-weight: 500; } tbody tr:hover { background: var(--soft); }
.r { text-align: right; white-space: nowrap; }
th button { border: 0; padding: 0; background: none; font-weight: 600; }
th[aria-sort] button::after { content: " ▲"; } th[aria-sort=descending] button::after { content: " ▼"; }
small { color: var(--quiet); white-space: nowrap; }
#models small { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
code { background: var(--soft); border-radius: .3rem; padding: .1rem .3rem; font-size: .92em;
  font-family: ui-monospace, "SFMono-Regular", Menlo, Consolas, monospace; }
/* A section is laid out when somebody gets there: a page of 200 models opens in a third of the time. */
.model { border: 1px solid var(--line); border-radius: .6rem; margin: 1rem 0; background: var(--page);
  content-visibility: auto; contain-intrinsic-height: auto 60rem; }
details.model:not([open]) { contain-intrinsic-height: auto 3rem; }
.model > summary { cursor: pointer; padding: .6rem 1rem; background: var(--soft); border-radius: .6rem; }
.model > summary h2 { display: inline; font-size: 1.05rem; font-weight: 600; }
.model > .body { padding: .2rem 1rem 1rem; }
.label { display: none; }
.model:has(> .body:target, > .here) { border-color: var(--link); }
tr:target, tr.here { background: light-dark(#fff8c5, #3b2e00); }
h3 { font-size: .98rem; margin: 1.4rem 0 .4rem; }
.plots { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr));
  grid-auto-flow: dense; margin: 1rem 0; align-items: start; }
figure { margin: 0; border: 1px solid var(--line); border-radius: .5rem; padding: .7rem; min-width: 0; }
figcaption { font-size: .85rem; color: var(--quiet); margin-top: .3rem; } figcaption b { color: var(--text); }
.plot { width: 100%; height: auto; display: block; }
.plot text { fill: var(--quiet); font: 14px system-ui, sans-serif; text-anchor: middle; }
.plot .y text { text-anchor: end; }
.plot .line { stroke: var(--line); fill: none; } .plot .x .guide { stroke: none; }
.plot .marks { fill: var(--blue); } .plot .marks .line { stroke: var(--blue); stroke-width: 1.5; }
.plot .beyond { fill: var(--bad); } .plot .noise { fill: var(--grey); } .plot .noise .line { stroke: var(--grey); }
.plot .limit { fill: var(--text); } .plot .limit .line { stroke: var(--text); stroke-dasharray: 5 3; }
.plot .diagonal .line { stroke: var(--grey); stroke-dasharray: 3 3; }
.level-0 { opacity: .4; } .level-1 { opacity: .6; } .level-2 { opacity: .8; }
.wide { grid-column: 1 / -1; }
.checks { font-size: .88rem; } .checks td, .checks th { padding: .3rem .45rem; }
.checks td:nth-child(2) { white-space: nowrap; } .checks td:nth-child(11) { min-width: 15rem; }
.heat { font-size: .8rem; }
.heat td { text-align: right; padding: .2rem .4rem; min-width: 2.2rem; border: 1px solid var(--page); }
.heat th, .heat thead td { padding: .2rem .4rem; border: 0; background: none; }
.heat .corner { white-space: nowrap; text-align: left; color: var(--quiet); }
.heat .none { color: var(--quiet); }
.heat .right { background: color-mix(in srgb, var(--blue) var(--deep), var(--page)); }
.heat .wrong { background: color-mix(in srgb, var(--bad) var(--deep), var(--page)); font-weight: 600; }
.h1 { --deep: 8%; } .h2 { --deep: 14%; } .h3 { --deep: 20%; } .h4 { --deep: 27%; } .h5 { --deep: 34%; }
meter { width: 8rem; height: 1rem; vertical-align: middle; }
.share { white-space: nowrap; } .faults:has(> li:only-child) { list-style: none; padding-left: 0; }
.faults dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .8rem; margin: .3rem 0 .8rem; }
.faults dt { color: var(--quiet); } .faults dd { margin: 0; min-width: 0; }
.links { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; list-style: none; padding: 0; }
blockquote { border-left: .3rem solid var(--warn); margin: 1rem 0; padding: .1rem 1rem; background: var(--soft); }
footer { color: var(--quiet); font-size: .85rem; padding-top: 1rem; padding-bottom: 2rem; }
@media (max-width: 40rem) {
  body { font-size: 14px; } h1 { font-size: 1rem; } main, .top > div, footer { padding: 0 .6rem; }
  .top { position: static; } .top h1 { grid-column: 1 / -1; } .theme { grid-area: 2 / 2; }
  html { scroll-padding-top: 4rem; }
  .model > .body { padding: .2rem .6rem .8rem; } .model > summary { padding: .5rem .6rem; }
  #filters label { flex: 1 1 45%; }
  #filters label:has(#find) { flex-basis: 100%; white-space: normal; flex-wrap: wrap; }
  #filters select, #filters input { width: 100%; }
  meter { width: 5rem; } .faults { padding-left: 1.2rem; } .body ul:not(.links) { padding-left: 1.2rem; }
  .scroll:has(> #models) { overflow: visible; background: none; } #models small { position: static; clip-path: none; }
  #models, #models tbody { display: block; }
  #models thead:not(:has(button)) { display: none; }
  #models thead, #models thead tr { display: flex; flex-wrap: wrap; gap: .3rem; align-items: baseline; }
  #models thead tr::before { content: "sort by"; color: var(--quiet); font-size: .9rem; }
  #models thead th { padding: 0; border: 0; background: none; }
  #models thead button { border: 1px solid var(--line); background: var(--soft); padding: .1rem .5rem;
    font-weight: 400; }
  #models tbody tr:not([hidden]) { display: grid; gap: .4rem .8rem; margin: .6rem 0; padding: .6rem;
    grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); border: 1px solid var(--line); border-radius: .6rem; }
  #models tbody th, #models tbody td { border: 0; padding: 0; min-width: 0; text-align: left; white-space: normal;
    overflow-wrap: anywhere; }
  #models tbody th, #models td:nth-child(2):not(.r) { grid-column: 1 / -1; }
  #models td:empty, #models td:nth-child(n + 3):not(:has(.label)) { display: none; }
  #models .label { display: block; color: var(--quiet); font-size: .85rem; }
}
@media (prefers-reduced-motion: no-preference) { html { scroll-behavior: smooth; } }
@media print {
  :root, :root[data-theme] { color-scheme: light; } .top { position: static; } #filters, .theme { display: none; }
}
"""
