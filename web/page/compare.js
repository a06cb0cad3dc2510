// Two plans side by side, on one scale.

import { el, put } from "./dom.js";
import { bytes, seconds, total } from "./format.js";
import { commands, phases, timeBar, times } from "./detail.js";
import { legend, scale } from "./memory.js";
import { pills } from "./splits.js";

// draw: sides are {title, plan, commands}, the pinned one first. on: {unpin()}.
export function draw(section, sides, on, failed) {
  const most = scale(sides.map((s) => s.plan));
  const longest = Math.max(...sides.map((s) => s.plan.step_seconds));
  const [a, b] = sides.map((s) => s.plan);
  put(
    section,
    el(
      "div",
      { class: "card-head" },
      el("h2", { id: "compare-title", text: "Side by side" }),
      legend(sides.map((s) => s.plan)),
      el("button", { type: "button", class: "quiet", text: "Unpin", on: { click: on.unpin } }),
    ),
    el(
      "div",
      { class: "sides" },
      sides.map((side, i) =>
        el(
          "article",
          { class: "side", "aria-label": i === 0 ? "pinned" : "selected" },
          el(
            "h3",
            {},
            el("span", { class: "quiet-text", text: i === 0 ? "pinned" : "selected" }),
            " ",
            side.plan.slice,
          ),
          pills(side.plan),
          el("p", { class: "quiet-text", text: side.title }),
          phases(side.plan, most),
          side.plan.fits !== false
            ? null
            : el("p", { class: "why", text: `too big by ${bytes(side.plan.over_bytes)}` }),
          el("p", { class: "label", text: "step" }),
          timeBar(side.plan, longest),
          el("p", {
            class: "quiet-text",
            text:
              seconds(side.plan.step_seconds) +
              ": " +
              times(side.plan)
                .map((t) => `${t.label} ${seconds(t.s)}`)
                .join(", "),
          }),
          commands(side.commands, failed),
        ),
      ),
    ),
    el(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Differences" },
      el(
        "table",
        { class: "figures differences" },
        el("caption", { text: "The selected plan against the pinned one" }),
        el(
          "tbody",
          {},
          difference("memory of a device", a.hbm_bytes_per_device, b.hbm_bytes_per_device, bytes),
          difference("a step, estimated", a.step_seconds, b.step_seconds, seconds),
          difference(
            "sent by a device in a step",
            total(a.collective_bytes),
            total(b.collective_bytes),
            bytes,
          ),
          difference("devices", a.devices, b.devices, String, true),
        ),
      ),
    ),
  );
}

// plain: neither more nor less is better.
function difference(label, a, b, text, plain) {
  const change = a > 0 ? Math.round((100 * (b - a)) / a) : 0;
  return el(
    "tr",
    {},
    el("th", { scope: "row", text: label }),
    el("td", { class: "num", text: text(a) }),
    el("td", { class: "num", text: text(b) }),
    el("td", {
      class: "num " + (plain || change === 0 ? "" : change > 0 ? "worse" : "better"),
      text: change === 0 ? "same" : (change > 0 ? "+" : "−") + Math.abs(change) + " %",
    }),
  );
}
