// One plan spelled out: memory by phase and kind, time, what is sent; and how to run it.

import { el, put } from "./dom.js";
import { figure } from "./figure.js";
import { bytes, count, many, seconds, total } from "./format.js";
import { bar, parts, phaseName, scale } from "./memory.js";
import { pills } from "./splits.js";

// phases are all phases of a plan, those without programs named as such. Where on is given, their
// totals say what made them.
export function phases(plan, most, on) {
  return el(
    "div",
    { class: "phases" },
    Object.entries(plan.breakdown).map(([name, phase]) => {
      if (typeof phase !== "object" || phase === null) {
        return el(
          "div",
          { class: "phase" },
          el("span", { class: "phase-title", text: phaseName(name) }),
          el("span", { class: "bar unknown" }),
          el("span", { class: "num quiet-text", text: String(phase) }),
        );
      }
      return el(
        "div",
        { class: "phase" },
        el("span", { class: "phase-title", text: phaseName(name) }),
        bar(phase, plan.hbm_limit_bytes, most),
        el(
          "span",
          { class: "num" },
          figure("total_bytes:" + name, phaseName(name), bytes(phase.total_bytes), on),
        ),
      );
    }),
  );
}

function memoryTable(plan, on) {
  const rows = Object.entries(plan.breakdown).filter(
    ([, p]) => typeof p === "object" && p !== null,
  );
  return rows.map(([name, phase]) =>
    el(
      "table",
      { class: "figures" },
      el("caption", {
        text: `${phaseName(name)}, at its fullest` + (phase.at ? ` in “${phase.at}”` : ""),
      }),
      el(
        "tbody",
        {},
        parts(phase).map((p) =>
          el(
            "tr",
            {},
            el("th", { scope: "row" }, el("i", { class: "k-" + p.kind }), p.label),
            el(
              "td",
              { class: "num" },
              figure(
                `${p.kind}_bytes:${name}`,
                `${phaseName(name)} ${p.label}`,
                bytes(p.bytes),
                p.kind !== "other" && p.bytes > 0 && on,
              ),
            ),
            el("td", {
              class: "num quiet-text",
              text: Math.round((100 * p.bytes) / Math.max(1, phase.total_bytes)) + " %",
            }),
          ),
        ),
      ),
    ),
  );
}

// runText says which model a run of a phase is of, on which mesh, and in how many tiles.
const runText = (r) =>
  (r.tiles ? `${many(r.tiles, "tile")} of ${r.tile}, ` : "") +
  r.model +
  (r.mesh ? ` on ${r.mesh}` : "") +
  (r.dtype ? `, ${r.dtype}` : "");

// videoPhases are the phases of making a video, in order: the memory of a device and the seconds
// of each, and which models run in it. Those of which a model is not known are named as such.
export function videoPhases(plan, on) {
  const known = (p) => p.hbm_bytes_per_device !== null && p.seconds !== null;
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Phases of a video" },
    el(
      "table",
      { class: "figures video-phases" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          ["phase", "memory", "time", "runs"].map((text) =>
            el("th", {
              scope: "col",
              class: text === "memory" || text === "time" ? "num" : null,
              text,
            }),
          ),
        ),
      ),
      el(
        "tbody",
        {},
        (plan.phases ?? []).map((p) =>
          el(
            "tr",
            { data: { phase: p.name } },
            el("th", { scope: "row" }, p.name),
            known(p)
              ? [
                  el(
                    "td",
                    { class: "num" },
                    figure(
                      "total_bytes:" + p.name,
                      `${p.name} memory`,
                      bytes(p.hbm_bytes_per_device),
                      on,
                    ),
                  ),
                  el(
                    "td",
                    { class: "num" },
                    figure("seconds:" + p.name, `${p.name} time`, seconds(p.seconds), on),
                    p.steps > 0 && el("div", { class: "quiet-text", text: many(p.steps, "step") }),
                  ),
                ]
              : el("td", { class: "num quiet-text", colspan: 2, text: "not modelled" }),
            el(
              "td",
              {},
              p.runs.map((r) => el("div", { class: "quiet-text", text: runText(r) })),
            ),
          ),
        ),
      ),
    ),
  );
}

// times are the parts of a step: arithmetic, memory, and each axis's collectives.
export function times(plan) {
  const t = plan.time;
  const named = [
    ["matmul", "matmuls", t.matmul_seconds, "matmul_seconds"],
    ["attend", "attention", t.attention_seconds, "attention_seconds"],
    ["memory", "memory traffic", t.memory_seconds, "memory_seconds"],
  ];
  for (const [axis, s] of Object.entries(t.collective_seconds ?? {}).sort())
    named.push([
      "sends axis-" + axis.split("+")[0],
      "over " + axis,
      s,
      "collective_seconds:" + axis,
    ]);
  return named
    .filter(([, , s]) => s > 0)
    .map(([kind, label, s, name]) => ({ kind, label, s, name }));
}

export function timeBar(plan, longest) {
  return el(
    "span",
    {
      class: "bar time",
      role: "img",
      "aria-label": times(plan)
        .map((t) => `${t.label} ${seconds(t.s)}`)
        .join(", "),
    },
    times(plan).map((t) =>
      el("span", {
        class: "part t-" + t.kind,
        style: { width: (100 * t.s) / longest + "%" },
        title: `${t.label}: ${seconds(t.s)}`,
      }),
    ),
  );
}

const timeList = (plan, on) =>
  el(
    "ul",
    { class: "legend" },
    times(plan).map((t) =>
      el(
        "li",
        {},
        el("i", { class: "t-" + t.kind }),
        `${t.label} `,
        el("b", {}, figure(t.name, t.label, seconds(t.s), on)),
      ),
    ),
  );

// commands are lines with a button that copies each.
export function commands(list, failed) {
  return el(
    "div",
    { class: "commands" },
    list.map((c) =>
      el(
        "div",
        { class: "command" },
        el("p", {}, el("b", { text: c.name }), ": " + c.does),
        el(
          "div",
          { class: "line" },
          el("pre", { tabindex: 0, "aria-label": "weft " + c.name }, el("code", { text: c.text })),
          copyButton(c.text, failed),
        ),
      ),
    ),
  );
}

export function copyButton(text, failed) {
  const b = el("button", {
    type: "button",
    class: "quiet",
    text: "Copy",
    on: {
      click: async () => {
        try {
          await navigator.clipboard.writeText(text);
          b.textContent = "Copied";
          setTimeout(() => {
            b.textContent = "Copy";
          }, 1500);
        } catch (error) {
          failed("The browser does not let the page copy", error.message);
        }
      },
    },
  });
  return b;
}

// run shows how to run a plan, and in what other tools' words it can be had.
export function run(section, list, failed) {
  put(
    section,
    el("div", { class: "card-head" }, el("h2", { id: "run-title", text: "Run it" })),
    commands(list, failed),
  );
}

// draw shows a plan. on: {explain(name)}.
export function draw(section, plan, on) {
  const sent = [...(plan.collectives ?? [])].sort((a, b) => b.bytes - a.bytes);
  put(
    section,
    el("div", { class: "card-head" }, el("h2", { id: "detail-title" }, plan.slice), pills(plan)),
    el(
      "dl",
      { class: "stats" },
      stat(
        "memory of a device",
        "hbm_bytes_per_device",
        bytes(plan.hbm_bytes_per_device),
        plan.hbm_limit_bytes
          ? plan.fits
            ? `${bytes(plan.hbm_limit_bytes - plan.hbm_bytes_per_device)} left of ` +
              bytes(plan.hbm_limit_bytes)
            : `${bytes(plan.over_bytes)} more than ${bytes(plan.hbm_limit_bytes)}`
          : "the device's memory is unknown, and so is whether it fits",
        on,
      ),
      stat("a step, estimated", "step_seconds", seconds(plan.step_seconds), "", on),
      stat(
        "sent by a device",
        "collective_bytes",
        bytes(total(plan.collective_bytes)),
        "in a step",
        on,
      ),
    ),
    el("h3", { text: "Memory" }),
    phases(plan, scale([plan]), on),
    memoryTable(plan, on),
    (plan.phases ?? []).length > 0 && el("h3", { text: "Phases of a video" }),
    (plan.phases ?? []).length > 0 && videoPhases(plan, on),
    el("h3", { text: "Time of a step" }),
    timeBar(plan, plan.step_seconds),
    timeList(plan, on),
    (plan.attention ?? []).length > 0 && el("h3", { text: "Attention" }),
    (plan.attention ?? []).length > 0 &&
      el(
        "ul",
        { class: "choices" },
        plan.attention.map((a) =>
          el("li", {}, el("span", { class: "pill", text: a.taken }), ` ${a.of}: ${a.why}`),
        ),
      ),
    sent.length > 0 && el("h3", { text: "What is sent in a step" }),
    sent.length > 0 &&
      el(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": "Collectives" },
        el(
          "table",
          { class: "figures" },
          el(
            "tbody",
            {},
            sent.map((c) =>
              el(
                "tr",
                {},
                el("th", { scope: "row" }, c.op),
                el(
                  "td",
                  {},
                  el("span", { class: "pill axis-" + c.axis.split("+")[0], text: c.axis }),
                ),
                el("td", { class: "num", text: count(c.count) + " ×" }),
                el(
                  "td",
                  { class: "num" },
                  figure(
                    `${c.op}:${c.axis}:${c.dtype}`,
                    `${c.op} over ${c.axis} of ${c.dtype}`,
                    bytes(c.bytes),
                    on,
                  ),
                ),
              ),
            ),
          ),
        ),
      ),
    ...[...(plan.padding ?? []), ...(plan.notes ?? [])].map((n) =>
      el("p", { class: "note", text: n }),
    ),
  );
}

const stat = (label, name, value, more, on) =>
  el(
    "div",
    {},
    el("dt", { text: label }),
    el("dd", {}, el("b", {}, figure(name, label, value, on)), more && el("span", { text: more })),
  );
