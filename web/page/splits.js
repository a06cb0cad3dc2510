// The list of splits: one row a plan, best first, then the refused.

import { el, put } from "./dom.js";
import { axes, bytes, many, seconds, shares, splitName, total } from "./format.js";
import { bars, legend, scale } from "./memory.js";

// pills show a split's axes; those of size 1 are pale.
export function pills(plan) {
  return el(
    "span",
    { class: "pills" },
    axes(plan.mesh).map((a) =>
      el(
        "span",
        { class: "pill axis-" + a.name + (a.size === 1 ? " one" : "") },
        a.name,
        el("b", { text: a.size }),
      ),
    ),
    shares(plan).length > 0 &&
      el(
        "span",
        {
          class: "pill fsdp",
          title: "weights are kept in shares over " + shares(plan).join(" and "),
        },
        "shares ",
        el("b", { text: shares(plan).join(",") }),
      ),
    plan.cfg_parallel &&
      el(
        "span",
        {
          class: "pill cfg",
          title: "CFG parallel: the passes with and without the text run on different devices",
        },
        "CFG ∥",
      ),
  );
}

const keyOf = (p) => [p.slice, p.mesh, p.fsdp.join(",")].join("|");

// draw shows a result. on: {select(plan), pin(plan), refused(open)}.
export function draw(section, result, selected, pinnedKey, state, on) {
  const most = scale(result.plans);
  const everywhere = result.on === "all";
  const slowest = Math.max(...result.plans.map((p) => p.step_seconds), 1e-9);
  const rows = result.plans.map((plan, i) => {
    const chosen = plan === selected;
    const row = el(
      "div",
      {
        class: "row" + (plan.fits === false ? " unfit" : ""),
        role: "option",
        id: "split-" + i,
        tabindex: chosen ? 0 : -1,
        "aria-selected": chosen ? "true" : "false",
        "aria-label":
          `${plan.slice} ${splitName(plan)}: ${bytes(plan.hbm_bytes_per_device)}` +
          `${plan.fits === false ? ", does not fit" : ""}, about ${seconds(plan.step_seconds)} a step`,
        data: { key: keyOf(plan) },
        on: { click: () => on.select(plan) },
      },
      el(
        "span",
        { class: "name" },
        everywhere && el("b", { class: "slice-name", text: plan.slice }),
        pills(plan),
      ),
      bars(plan, most),
      el("span", { class: "num hbm" }, bytes(plan.hbm_bytes_per_device)),
      el(
        "span",
        { class: "num step", title: "a step, estimated" },
        el("span", { class: "tick", style: { width: (100 * plan.step_seconds) / slowest + "%" } }),
        seconds(plan.step_seconds),
      ),
      el(
        "span",
        { class: "num sent", title: "sent by each device in a step" },
        bytes(total(plan.collective_bytes)),
      ),
      el("button", {
        type: "button",
        tabindex: -1,
        class: "pin" + (keyOf(plan) === pinnedKey ? " on" : ""),
        "aria-label": "Pin " + splitName(plan) + " for comparison",
        title: "Pin for comparison (p)",
        text: keyOf(plan) === pinnedKey ? "pinned" : "pin",
        on: {
          click: (event) => {
            event.stopPropagation();
            on.pin(plan);
          },
        },
      }),
      plan.fits === false &&
        el(
          "span",
          { class: "why" },
          "too big by " +
            bytes(plan.over_bytes) +
            (plan.change ? "; " + (plan.advice ? "fits with " : "") + plan.change : ""),
        ),
    );
    return row;
  });
  const list = el(
    "div",
    {
      class: "rows",
      role: "listbox",
      "aria-label": "Splits, best first",
      on: { keydown: (event) => keys(event, rows, result.plans, on) },
    },
    rows,
  );
  const scrolled = section.querySelector(".rows")?.scrollTop ?? 0;
  put(
    section,
    el(
      "div",
      { class: "card-head" },
      el("h2", { id: "splits-title", text: everywhere ? "Smallest slices that do" : "Splits" }),
      legend(result.plans),
    ),
    result.plans.length > 0 &&
      el(
        "div",
        { class: "row heads", "aria-hidden": "true" },
        el("span", { text: everywhere ? "slice, split" : "split" }),
        el("span", { text: "memory of a device" }),
        el("span", { class: "num", text: "HBM" }),
        el("span", { class: "num", text: "step" }),
        el("span", { class: "num", text: "sent" }),
        el("span"),
      ),
    result.plans.length > 0
      ? list
      : el("p", {
          class: "empty",
          text: everywhere
            ? "No slice that weft knows does."
            : "No split of this hardware is legal. The reasons are below.",
        }),
    refused(result, state, on),
  );
  // The list stays where it was, the chosen row in sight.
  const row = rows[result.plans.indexOf(selected)];
  if (!row) return;
  list.scrollTop = scrolled;
  const top = row.offsetTop - list.offsetTop;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + row.offsetHeight > list.scrollTop + list.clientHeight)
    list.scrollTop = top + row.offsetHeight - list.clientHeight;
}

function keys(event, rows, plans, on) {
  const at = rows.indexOf(event.target.closest(".row"));
  if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
  if (to !== undefined) {
    event.preventDefault();
    if (plans[to]) on.select(plans[to]);
  } else if (event.key === "p") on.pin(plans[at]);
}

function refused(result, state, on) {
  if (!result.refused.length) return null;
  const everywhere = result.on === "all";
  const open = state.refused === "open" || result.plans.length === 0;
  return el(
    "details",
    { class: "refused", open, on: { toggle: (event) => on.refused(event.target.open) } },
    el("summary", {}, many(result.refused.length, everywhere ? "slice" : "split"), " refused"),
    el(
      "ul",
      {},
      result.refused.map((r) =>
        el(
          "li",
          {},
          el("code", { text: everywhere ? r.slice : r.mesh }),
          el("span", { class: "kind", text: r.kind }),
          el("span", { class: "reason", text: r.reason }),
        ),
      ),
    ),
  );
}
