// Bars of memory: what a device holds in a phase, stacked by kind, with the limit.

import { el } from "./dom.js";
import { bytes } from "./format.js";

// Kinds in the order they are stacked. A field that is none of them is shown as other.
export const kinds = [
  ["weights", "weights"],
  ["attention", "text K/V and attention"],
  ["residual", "residual stream"],
  ["gathered", "gathered"],
  ["temp", "temporaries"],
];

const phaseNames = { text: "text encoder", dit: "diffusion step", vae: "VAE" };

export const phaseName = (phase) => phaseNames[phase] ?? phase;

// parts are a phase's bytes by kind, what no kind has as "other".
export function parts(phase) {
  const out = kinds.map(([kind, label]) => ({ kind, label, bytes: phase[kind + "_bytes"] ?? 0 }));
  const rest = phase.total_bytes - out.reduce((n, p) => n + p.bytes, 0);
  if (rest > 0) out.push({ kind: "other", label: "other", bytes: rest });
  return out;
}

export const modelled = (plan) =>
  Object.entries(plan.breakdown).filter(([, p]) => typeof p === "object" && p !== null);

// bar draws one phase on a scale of most bytes; what goes beyond it is cut off.
export function bar(phase, limit, most) {
  const percent = (n) => (100 * n) / most + "%";
  const over = limit > 0 && phase.total_bytes > limit;
  let from = 0;
  const pieces = parts(phase)
    .filter((p) => p.bytes > 0)
    .map((p) => {
      const width = Math.max(0, Math.min(p.bytes, most - from));
      from += width;
      return el("span", {
        class: "part k-" + p.kind,
        style: { width: percent(width) },
        title: `${p.label}: ${bytes(p.bytes)}`,
      });
    });
  return el(
    "span",
    {
      class: "bar" + (over ? " over" : "") + (phase.total_bytes > most ? " cut" : ""),
      role: "img",
      "aria-label":
        parts(phase)
          .filter((p) => p.bytes > 0)
          .map((p) => `${p.label} ${bytes(p.bytes)}`)
          .join(", ") + (limit ? `; limit ${bytes(limit)}` : ""),
    },
    pieces,
    limit > 0 &&
      el("span", {
        class: "limit",
        style: { left: percent(limit) },
        title: `limit ${bytes(limit)}`,
      }),
  );
}

// bars are all modelled phases of a plan, each named when there are several.
export function bars(plan, most) {
  const phases = modelled(plan);
  return el(
    "span",
    { class: "bars" },
    phases.map(([name, phase]) =>
      el(
        "span",
        { class: "phase-bar" },
        phases.length > 1 && el("span", { class: "phase-name", text: name }),
        bar(phase, plan.hbm_limit_bytes, most),
      ),
    ),
  );
}

// scale is the most bytes that bars of these plans show.
export function scale(plans) {
  let most = 1;
  for (const p of plans) {
    most = Math.max(
      most,
      p.hbm_limit_bytes * 1.04,
      Math.min(p.hbm_bytes_per_device, p.hbm_limit_bytes ? 2.2 * p.hbm_limit_bytes : Infinity),
    );
  }
  return most;
}

export function legend(plans) {
  const present = new Set(
    plans.flatMap((p) =>
      modelled(p).flatMap(([, phase]) =>
        parts(phase)
          .filter((x) => x.bytes > 0)
          .map((x) => x.kind),
      ),
    ),
  );
  const all = [...kinds, ["other", "other"]].filter(([kind]) => present.has(kind));
  return el(
    "ul",
    { class: "legend", "aria-label": "Kinds of memory" },
    all.map(([kind, label]) => el("li", {}, el("i", { class: "k-" + kind }), label)),
    plans.some((p) => p.hbm_limit_bytes > 0) &&
      el("li", {}, el("i", { class: "limit-mark" }), "limit of a device"),
  );
}
