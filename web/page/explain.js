// What a figure of a plan is made of: its parts, largest first, with rule and source.

import { copyButton } from "./detail.js";
import { el, put } from "./dom.js";
import { bytes, many, shape, spec } from "./format.js";

// A part below this share is not shown before it is asked for.
const small = 0.01;

// amount writes a value of a unit with about four digits.
function amount(value, unit) {
  if (unit === "bytes") return value < 0 ? "−" + bytes(-value) : bytes(value);
  if (unit === "seconds") {
    if (Math.abs(value) < 1) return Number((value * 1e3).toPrecision(3)) + " ms";
    return value.toFixed(3) + " s";
  }
  for (const [name, size] of [
    ["PFLOP", 1e15],
    ["TFLOP", 1e12],
    ["GFLOP", 1e9],
    ["MFLOP", 1e6],
  ])
    if (value >= size) return (value / size).toFixed(2) + " " + name;
  return value + " FLOP";
}

// exact writes a value with all its digits.
const exact = (value, unit) =>
  value.toLocaleString("en", { maximumFractionDigits: 20 }) + " " + unit;

// place says which program and line a part is of, and how often it counts.
function place(p) {
  const where = p.line > 0 ? `${p.program}:${p.line}` : p.program ? `${p.program} ${p.op}` : p.op;
  return p.calls > 1 ? `${where} × ${p.calls.toLocaleString("en")}` : where;
}

// held says how a weight or value is held, or which inputs an instruction reads.
const held = (p) =>
  p.reads
    ? "reads " + p.reads.join(", ")
    : p.spec &&
      `${p.dtype} ${shape(p.shape ?? [])} ${spec(p.spec)}, ${shape(p.local ?? [])} a device` +
        (p.padding ? `; ${p.padding}` : "");

const row = (p, unit) =>
  el(
    "tr",
    {},
    el(
      "td",
      { class: "num" },
      amount(p.value, unit),
      el("span", { class: "quiet-text", text: ` ${(100 * p.share).toFixed(1)} %` }),
    ),
    el(
      "td",
      {},
      el("b", { text: place(p) }),
      p.kind && [" ", el("i", { class: "k-" + p.kind, title: p.kind })],
      " ",
      el("code", { text: p.what }),
      held(p) && el("p", { class: "quiet-text", text: held(p) }),
      el("p", { text: p.rule }),
      p.source && el("p", { class: "quiet-text", text: p.source }),
    ),
  );

const table = (parts, unit, label) =>
  el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    el(
      "table",
      { class: "figures made" },
      el("caption", { class: "visually-hidden", text: label }),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          el("th", { class: "num", scope: "col", text: "part" }),
          el("th", { scope: "col", text: "program:line × calls, rule and source" }),
        ),
      ),
      el(
        "tbody",
        {},
        parts.map((p) => row(p, unit)),
      ),
    ),
  );

// draw shows an explanation, or why there is none. on: {explain(name)}, with "" to close.
export function draw(section, name, doc, problem, command, on, failed) {
  const head = (text) =>
    el(
      "div",
      { class: "card-head" },
      el("h2", { id: "explain-title", tabindex: -1, text }),
      el("button", {
        type: "button",
        class: "quiet",
        text: "Close",
        on: { click: () => on.explain("") },
      }),
    );
  if (!doc) {
    put(section, head(name), el("p", { class: "note", text: problem }));
    return;
  }
  const large = doc.parts.filter((p) => Math.abs(p.share) >= small);
  const rest = doc.parts.filter((p) => Math.abs(p.share) < small);
  const sum = rest.reduce((n, p) => n + p.value, 0);
  put(
    section,
    head(`What made ${amount(doc.value, doc.unit)}`),
    el(
      "p",
      {},
      el("code", { text: doc.figure }),
      `: ${doc.of}. ${exact(doc.value, doc.unit)}, `,
      `in ${many(doc.parts.length, "part")} that add up to it.`,
    ),
    doc.padding.map((text) => el("p", { class: "note", text })),
    large.length > 0 && table(large, doc.unit, "Parts"),
    rest.length > 0 &&
      el(
        "details",
        { class: "others" },
        el("summary", {}, `${many(rest.length, "other")}, ${amount(sum, doc.unit)}`),
        table(rest, doc.unit, "Parts below one per cent"),
      ),
    command &&
      el(
        "div",
        { class: "line" },
        el(
          "pre",
          { tabindex: 0, "aria-label": "weft plan --explain" },
          el("code", { text: command }),
        ),
        copyButton(command, failed),
      ),
  );
}
