"""The messages of a run as a page: Markdown, or a self-contained HTML player with one message at a time."""

from __future__ import annotations

import json
from html import escape

from ...models.exploration.message_trace import INTRODUCTION, Message, markdown_parts

FORMS = (".md", ".html")

_PLAYER = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
#message {{ font-size: 1.2rem; min-height: 3rem }}
.replica {{ display: grid; grid-template-columns: 8rem 1fr 9rem; gap: .75rem; align-items: center; margin: .4rem 0 }}
.log {{ position: relative; height: 1.6rem; background: #8883; border-radius: 3px }}
.end {{ position: absolute; inset: 0 auto 0 0; background: #56b4e9; border-radius: 3px; transition: width .2s }}
.mark {{ position: absolute; top: -3px; bottom: -3px; width: 0; border-right: 3px solid #d55e00; transition: left .2s }}
.changed {{ font-weight: bold }}
button {{ font: inherit; padding: .3rem 1rem }}
</style></head><body>
<h1>{title}</h1>
<p>{introduction}</p>
<p>Blue bar: a replica's log, up to its LEO. Orange line: its HW; records below it are committed, and consumers may read
them. Bold: what the message changed. Step with the buttons, or with the arrow keys.</p>
<p><button id="back">Back</button> <button id="next">Next</button> <span id="place"></span></p>
<p id="message" aria-live="polite"></p><div id="replicas"></div><p id="remote"></p>
<script>
const messages = {messages};
const most = Math.max(1, ...messages.flatMap(m => m.replicas.map(r => r[1])));
let at = 0;
const element = id => document.getElementById(id);
function line(name) {{
  const row = document.createElement("div"); row.className = "replica";
  row.innerHTML = '<span></span><div class="log"><div class="end"></div><div class="mark"></div></div><span></span>';
  row.children[0].textContent = name;
  return row;
}}
function show() {{
  if (!messages.length) {{ element("message").textContent = "No message in this time."; return; }}
  const m = messages[at], before = at ? messages[at - 1].replicas : m.replicas;
  element("place").textContent = (at + 1) + " of " + messages.length + ", " + (m.time / 1e6).toFixed(6) + " s";
  element("message").textContent = m.source + (m.is_response ? " responds to " : " → ") + m.target + ": " + m.text;
  element("replicas").replaceChildren(...m.replicas.map(([broker, end, mark]) => {{
    const row = line("broker " + broker);
    row.querySelector(".end").style.width = 100 * end / most + "%";
    row.querySelector(".mark").style.left = 100 * mark / most + "%";
    const was = before.find(r => r[0] === broker) || [broker, 0, 0];
    row.lastChild.textContent = "LEO " + end + ", HW " + mark;
    row.lastChild.className = was[1] !== end || was[2] !== mark ? "changed" : "";
    return row;
  }}));
  const led = m.leader ? "Broker " + m.leader[0] + " leads in epoch " + m.leader[1] + ". " : "No leader. ";
  element("remote").textContent = m.remote.length
    ? led + "Log ends that it knows, from the followers' fetches: "
      + m.remote.map(([b, leo]) => "broker " + b + ": " + (leo < 0 ? "none yet" : leo)).join(", ")
    : led;
}}
function step(by) {{ at = Math.min(messages.length - 1, Math.max(0, at + by)); show(); }}
element("back").onclick = () => step(-1);
element("next").onclick = () => step(1);
document.onkeydown = e => {{ if (e.key === "ArrowRight") step(1); if (e.key === "ArrowLeft") step(-1); }};
show();
</script></body></html>
"""


def markdown(messages: list[Message], title: str) -> str:
    """The table and the sequence diagram."""
    return "\n\n".join((f"# {_heading(title)}", *markdown_parts(messages))) + "\n"


def player(messages: list[Message], title: str) -> str:
    """A self-contained HTML page that shows one message and the replicas after it, with buttons Back and Next."""
    rows = json.dumps([vars(message) for message in messages]).replace("<", "\\u003c")
    return _PLAYER.format(title=escape(_heading(title)), introduction=escape(INTRODUCTION), messages=rows)


def _heading(title: str) -> str:
    return f"{title}: how log ends and high watermarks move, message by message"
