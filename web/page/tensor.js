// Any tensor of the step: how it is cut, who holds which part.

import { el, put, svg } from "./dom.js";
import { bytes, dimAxes, many, shape, spec } from "./format.js";
import { colour } from "./slice.js";

const maxListed = 150;
const maxCuts = 128; // of a dim, drawn
const maxPanels = 8; // for dims beyond the two that are drawn

const roles = [
  ["", "all"],
  ["parameter", "parameters"],
  ["input", "inputs"],
  ["value", "activations"],
];

// draw shows the finder and, once chosen, the tensor. order is the device id by mesh position.
export function draw(section, tensors, shards, order, state, on) {
  const search = el("input", {
    type: "search",
    id: "find",
    placeholder: "self_attn.q, text_k, …",
    spellcheck: "false",
    "aria-label": "Find a tensor",
    value: state.find,
  });
  const list = el("div", { class: "tensors", role: "group", "aria-label": "Tensors" });
  const role = el(
    "select",
    { "aria-label": "Which tensors" },
    roles.map(([value, text]) => el("option", { value, text, selected: value === state.role })),
  );
  const scroll = section.querySelector(".tensors")?.scrollTop ?? 0;
  const fillList = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = tensors.filter(
      (t) =>
        (!role.value || t.role === role.value) &&
        words.every((w) => t.name.toLowerCase().includes(w)),
    );
    put(
      list,
      found.slice(0, maxListed).map((t) =>
        el(
          "button",
          {
            type: "button",
            class: "tensor" + (t.name === state.tensor ? " on" : ""),
            "aria-pressed": t.name === state.tensor ? "true" : "false",
            on: { click: () => on.tensor(t.name === state.tensor ? "" : t.name) },
          },
          el("span", { class: "tensor-name", text: t.name }),
          el("span", { class: "tensor-shape", text: shape(t.shape) }),
          el("span", { class: "tensor-spec", text: spec(t.spec) }),
        ),
      ),
      found.length > maxListed &&
        el("p", {
          class: "quiet-text",
          text: `${many(found.length - maxListed, "more")}: a longer word finds fewer`,
        }),
      found.length === 0 &&
        el("p", { class: "empty", text: "No tensor has these words in its name." }),
    );
  };
  const look = () => {
    on.find(search.value, role.value);
    fillList();
  };
  search.addEventListener("input", look);
  role.addEventListener("change", look);
  put(
    section,
    el(
      "div",
      { class: "card-head" },
      el("h2", { id: "tensor-title", text: "Shards" }),
      el("p", {
        class: "quiet-text",
        text: `${tensors.length.toLocaleString("en")} parameters and activations of this split`,
      }),
    ),
    el(
      "div",
      { class: "tensor-grid" },
      el("div", { class: "finder" }, el("div", { class: "find-line" }, search, role), list),
      el(
        "div",
        { class: "shards" },
        shards
          ? detail(shards, order, state, on, section)
          : el("p", {
              class: "empty",
              text: "Choose a tensor: its shards are drawn here and on the slice.",
            }),
      ),
    ),
  );
  fillList();
  list.scrollTop = scroll;
}

function detail(t, order, state, on, section) {
  const positionOf = new Map(order.map((id, position) => [id, position]));
  const chosen =
    state.device === ""
      ? undefined
      : t.devices.find((d) => d.position === positionOf.get(Number(state.device)));
  const what = [
    t.role === "value"
      ? `made by “${t.call}”`
      : t.role === "input"
        ? "fed by the host"
        : "parameter",
    t.dtype,
    `${bytes(t.local_bytes)} a device`,
    t.copies > 1
      ? t.copies === order.length
        ? "whole on every device"
        : t.copies === t.devices.length
          ? `whole on ${many(t.copies, "device")}`
          : `${t.copies} copies of each part`
      : "one copy",
  ];
  const partial = Array.isArray(t.spec) ? [] : t.spec.partial;
  return [
    el(
      "h3",
      { class: "tensor-title" },
      el("code", { text: t.name }),
      " ",
      el("code", { class: "spec", text: spec(t.spec) }),
    ),
    el("p", { class: "quiet-text", text: what.join(" · ") }),
    partial.length > 0 &&
      el("p", {
        class: "note",
        text: `Each device holds an addend: the tensor is their sum over ${partial.join(" and ")}.`,
      }),
    t.file_shape &&
      el("p", {
        class: "note",
        text:
          `In the checkpoint ${shape(t.file_shape)}; ` +
          `the programs see the same elements as ${shape(t.shape)}.`,
      }),
    t.rule && el("p", { class: "quiet-text" }, "rule ", el("code", { text: t.rule })),
    panels(t, order, chosen, section),
    dims(t, chosen, order),
  ];
}

// stretches of a dim: {lo, hi, key}, key naming the part it belongs to.
function stretches(t, dim) {
  const seen = new Map();
  for (const d of t.devices) {
    const key = JSON.stringify(d.ranges[dim]);
    if (!seen.has(key)) seen.set(key, d.ranges[dim]);
  }
  return [...seen]
    .flatMap(([key, ranges]) => ranges.map((r) => ({ ...r, key })))
    .sort((a, b) => a.lo - b.lo);
}

// panels draws two dims, and what other dims split as panels of their own.
function panels(t, order, chosen, section) {
  if (t.shape.length === 0)
    return el("p", { class: "quiet-text", text: "A scalar, whole wherever it is." });
  const cuts = t.shape.map((_, d) => stretches(t, d));
  const byCuts = t.shape
    .map((_, d) => d)
    .sort(
      (a, b) =>
        Math.min(2, cuts[b].length) - Math.min(2, cuts[a].length) || t.shape[b] - t.shape[a],
    );
  const [down, right] = byCuts.slice(0, 2).sort((a, b) => a - b);
  const drawn = t.shape.length === 1 ? { rows: null, cols: 0 } : { rows: down, cols: right };
  const others = byCuts.slice(2).filter((d) => cuts[d].length > 1);
  let combos = [[]];
  for (const d of others)
    combos = combos.flatMap((c) => cuts[d].map((s) => [...c, { dim: d, ...s }]));
  const shards = new Map(); // index of a shard by the devices' ranges
  for (const d of t.devices) {
    const key = JSON.stringify(d.ranges);
    if (!shards.has(key)) shards.set(key, { index: shards.size, devices: [] });
    shards.get(key).devices.push(order[d.position]);
  }
  const owners = (wanted) =>
    [...shards]
      .filter(([key]) => {
        const ranges = JSON.parse(key);
        return wanted.every(([dim, part]) => JSON.stringify(ranges[dim]) === part);
      })
      .map(([, s]) => s);
  const chosenKey = chosen && JSON.stringify(chosen.ranges);
  const chosenShard = chosenKey ? shards.get(chosenKey) : undefined;
  const shown = combos.slice(0, maxPanels);
  const room = Math.max(230, Math.min(560, (section.clientWidth || 600) - 60));
  const width =
    shown.length > 1 ? Math.max(150, Math.min(250, room / 2 - 16)) : Math.min(room, 460);
  const cut = Math.max(...cuts.map((c) => c.length)) > maxCuts;
  return [
    el(
      "div",
      { class: "panels" },
      shown.map((combo) => panel(t, cuts, drawn, combo, owners, shards.size, chosenShard, width)),
    ),
    combos.length > shown.length &&
      el("p", {
        class: "quiet-text",
        text: `${combos.length - shown.length} more panels of dims ${others.join(", ")} are not drawn`,
      }),
    cut && el("p", { class: "quiet-text", text: `the first ${maxCuts} cuts of a dim are drawn` }),
    el("p", {
      class: "quiet-text",
      text: `${many(shards.size, "different part")}; numbers are devices. Not to scale.`,
    }),
  ];
}

function panel(t, cuts, drawn, combo, owners, n, chosen, width) {
  const cols = cuts[drawn.cols].slice(0, maxCuts);
  const rows = drawn.rows === null ? [null] : cuts[drawn.rows].slice(0, maxCuts);
  const left = 0,
    top = 20;
  const height =
    drawn.rows === null
      ? 64
      : Math.max(
          90,
          Math.min(
            300,
            width *
              Math.min(
                1.1,
                Math.max(0.42, Math.sqrt(t.shape[drawn.rows] / Math.max(1, t.shape[drawn.cols]))),
              ),
          ),
        );
  const w = width / cols.length,
    h = height / rows.length;
  const cells = rows.flatMap((row, i) =>
    cols.map((col, j) => {
      const wanted = [
        ...combo.map((c) => [c.dim, c.key]),
        [drawn.cols, col.key],
        ...(row ? [[drawn.rows, row.key]] : []),
      ];
      const who = owners(wanted);
      const shard = who[0];
      if (!shard) return null;
      const ids = who.flatMap((s) => s.devices).sort((a, b) => a - b);
      const text =
        ids.length > 6 ? `${ids.slice(0, 4).join(" ")} +${ids.length - 4}` : ids.join(" ");
      const ranges = [
        ...combo.map((c) => `dim ${c.dim}: ${c.lo}–${c.hi}`),
        row && `dim ${drawn.rows}: ${row.lo}–${row.hi}`,
        `dim ${drawn.cols}: ${col.lo}–${col.hi}`,
      ]
        .filter(Boolean)
        .join(", ");
      return svg(
        "g",
        { class: "cell" + (shard === chosen ? " chosen" : "") },
        svg("title", { text: `${ranges}: device${ids.length > 1 ? "s" : ""} ${ids.join(", ")}` }),
        svg("rect", {
          x: left + j * w + 1,
          y: top + i * h + 1,
          width: Math.max(0.5, w - 2),
          height: Math.max(0.5, h - 2),
          rx: Math.min(5, w / 6, h / 6),
          style: n > 1 ? { fill: colour(shard.index, n) } : {},
        }),
        w > 7 * text.length &&
          h > 18 &&
          svg("text", { class: "what", x: left + (j + 0.5) * w, y: top + (i + 0.5) * h + 4, text }),
      );
    }),
  );
  return el(
    "figure",
    { class: "drawing" },
    combo.length > 0 &&
      el("figcaption", { text: combo.map((c) => `dim ${c.dim}: ${c.lo}–${c.hi}`).join(", ") }),
    svg(
      "svg",
      {
        viewBox: `0 0 ${width} ${height + top + 2}`,
        width,
        height: height + top + 2,
        role: "img",
        "aria-label": `${t.name} cut into ${cols.length * rows.length} drawn parts`,
      },
      svg("text", {
        class: "layer",
        x: 0,
        y: 13,
        text:
          (drawn.rows === null ? "" : `dim ${drawn.rows} ↓ ${t.shape[drawn.rows]}   `) +
          `dim ${drawn.cols} → ${t.shape[drawn.cols]}`,
      }),
      cells,
    ),
  );
}

const rangeText = (ranges) => ranges.map((r) => `${r.lo}–${r.hi}`).join(", ");

function dims(t, chosen, order) {
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Dims" },
    el(
      "table",
      { class: "figures dims" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          el("th", { scope: "col", text: "dim" }),
          el("th", { scope: "col", class: "num", text: "size" }),
          el("th", { scope: "col", text: "split over" }),
          el("th", {
            scope: "col",
            text: chosen ? `device ${order[chosen.position]} holds` : "a device holds",
          }),
        ),
      ),
      el(
        "tbody",
        {},
        t.shape.map((size, d) => {
          const over = dimAxes(t.spec, d);
          const ranges = (chosen ?? t.devices[0]).ranges[d];
          return el(
            "tr",
            {},
            el("th", { scope: "row", text: d }),
            el("td", { class: "num", text: size }),
            el(
              "td",
              {},
              over.length
                ? over.map((a) => el("span", { class: "pill axis-" + a, text: a }))
                : el("span", { class: "quiet-text", text: "whole" }),
            ),
            el("td", {
              class: "range",
              text: chosen
                ? rangeText(ranges)
                : `${ranges.reduce((n, r) => n + r.hi - r.lo, 0)} of ${size}`,
            }),
          );
        }),
      ),
    ),
  );
}
