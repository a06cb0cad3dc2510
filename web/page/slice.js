// The slice: chips where they sit, devices, cores, hosts and links, and on them a
// mesh axis or a tensor's shards by colour.

import { el, put, svg } from "./dom.js";
import { axes, bytes, many } from "./format.js";

const maxChips = 4096; // drawn at all
const maxLinks = 1200; // drawn with links

// colour is the i-th of n colours; the page's lightness fits its theme.
export function colour(i, n) {
  const few = [262, 55, 155, 330, 205, 100, 25, 295];
  const hue = n <= few.length ? few[i] : (262 + (340 * i) / n) % 360;
  return `oklch(var(--dev-l) var(--dev-c) ${hue.toFixed(0)})`;
}

// places gives each device, by id, its chip's place, host and mesh coordinates.
export function places(topo) {
  const sizes = topo.mesh ? axes(topo.mesh.mesh) : [];
  const byDevice = new Map(
    topo.device_ids.map((id, i) => [
      id,
      { id, at: topo.coords[i], host: topo.processes[i], position: -1, coords: {} },
    ]),
  );
  (topo.mesh?.order ?? []).forEach((id, position) => {
    const device = byDevice.get(id);
    device.position = position;
    let rest = position;
    for (const a of [...sizes].reverse()) {
      device.coords[a.name] = rest % a.size;
      rest = Math.floor(rest / a.size);
    }
  });
  return byDevice;
}

// geometry lays chips out on width pixels.
function geometry(topo, width) {
  const shape = topo.topology.split("x").map(Number);
  let [bx, by = 1, bz = 1] = shape;
  const grid = topo.kind === "tpu";
  let row = bx;
  if (!grid) {
    row = bx <= 8 ? Math.min(bx, 4) : Math.ceil(Math.sqrt(bx));
    [by, bx] = [Math.ceil(bx / row), row];
  }
  const pad = 26;
  const head = bz > 1 ? 34 : 14; // names of layers and hosts
  // As many layers side by side as makes chips largest, not much higher than wide.
  let best;
  for (let across = bz; across >= 1; across--) {
    const step = Math.max(
      7,
      Math.min(104, (width - pad) / (across * bx + (across - 1) * 0.35) - 1),
    );
    const high = Math.ceil(bz / across) * (by * step + head);
    const score = high <= width * 1.15 ? step : -high;
    if (!best || score > best.score + 1e-9) best = { across, step, score };
  }
  const { across, step } = best;
  const cell = step * (step < 24 ? 0.78 : 0.66);
  const layer = { w: bx * step + 0.35 * step, h: by * step + head + 4 };
  const at = ([x, y, z]) => {
    if (!grid) [x, y, z] = [x % row, Math.floor(x / row), 0];
    return {
      x: pad / 2 + (z % across) * layer.w + x * step + step / 2,
      y: head + Math.floor(z / across) * layer.h + y * step + step / 2,
    };
  };
  const rows = Math.ceil(bz / across);
  return {
    step,
    cell,
    at,
    bounds: [bx, by, bz],
    grid,
    width: Math.max(across * layer.w + pad - 0.35 * step, 120),
    height: rows * layer.h + 18,
    z: bz,
  };
}

function hosts(topo, g, devices) {
  const boxes = new Map();
  for (const d of devices.values()) {
    const p = g.at(d.at);
    const key = d.host + "/" + (g.grid ? d.at[2] : 0);
    const b = boxes.get(key) ?? {
      host: d.host,
      x0: Infinity,
      y0: Infinity,
      x1: -Infinity,
      y1: -Infinity,
    };
    b.x0 = Math.min(b.x0, p.x);
    b.y0 = Math.min(b.y0, p.y);
    b.x1 = Math.max(b.x1, p.x);
    b.y1 = Math.max(b.y1, p.y);
    boxes.set(key, b);
  }
  const m = g.cell / 2 + (g.step - g.cell) * 0.3;
  return [...boxes.values()].map((b) =>
    svg(
      "g",
      {},
      svg("rect", {
        class: "host",
        x: b.x0 - m,
        y: b.y0 - m,
        width: b.x1 - b.x0 + 2 * m,
        height: b.y1 - b.y0 + 2 * m,
        rx: 10,
      }),
      g.step >= 40 &&
        boxes.size > 1 &&
        svg("text", {
          class: "host-name",
          x: b.x0 - m + 7,
          y: b.y0 - m - 3,
          text: "host " + b.host,
        }),
    ),
  );
}

// links are straight between neighbours; one that closes a ring goes back between
// the rows, and one to the next layer is a tick at the chip's corner.
function links(topo, g, devices) {
  const out = [];
  if (!g.grid || topo.link_devices.length > maxLinks) return out;
  const half = g.cell / 2;
  for (const [a, b] of topo.link_devices) {
    const from = devices.get(a).at,
      to = devices.get(b).at;
    const p = g.at(from),
      q = g.at(to);
    const dim = from.findIndex((v, i) => v !== to[i]);
    const closes = Math.abs(from[dim] - to[dim]) > 1;
    const cls = closes ? "link ring" : "link";
    const lane = g.step * 0.42;
    if (dim === 2) {
      const tick = (c, sign) =>
        svg("path", {
          class: cls,
          d:
            `M${c.x + sign * half * 0.72} ${c.y - sign * half * 0.72}` +
            `l${sign * g.step * 0.2} ${-sign * g.step * 0.2}`,
        });
      out.push(tick(p, 1), tick(q, -1));
    } else if (!closes) {
      out.push(svg("path", { class: cls, d: `M${p.x} ${p.y}L${q.x} ${q.y}` }));
    } else {
      // A link that closes a ring leaves the far chip, runs along the lane between two rows
      // and comes back into the near one: two quarter bends at either end.
      const wide = lane - half + 4;
      const back = -(lane - half) - 4;
      const deep = lane * 0.55;
      const [s, e] = from[dim] > to[dim] ? [p, q] : [q, p]; // the far end, the near end
      out.push(
        svg("path", {
          class: cls,
          d:
            dim === 0
              ? `M${s.x + half} ${s.y}q${wide} 0 ${wide} ${deep}t${back} ${deep}` +
                `H${e.x - half}q${back} 0 ${back} ${-deep}t${wide} ${-deep}`
              : `M${s.x} ${s.y + half}q0 ${wide} ${deep} ${wide}t${deep} ${back}` +
                `V${e.y - half}q0 ${back} ${-deep} ${back}t${-deep} ${wide}`,
        }),
      );
    }
  }
  return out;
}

// bus joins the GPUs of a box, where it is known that a switch does.
function bus(topo, g) {
  if (topo.kind !== "gpu" || !topo.rates_per_device.link_bytes || topo.devices < 2) return null;
  const last = topo.devices - 1,
    per = g.bounds[0];
  const rows = Math.ceil(topo.devices / per);
  const y =
    rows > 1 ? (g.at([0, 0, 0]).y + g.at([per, 0, 0]).y) / 2 : g.at([0, 0, 0]).y + g.step * 0.46;
  const lines = [
    svg("path", {
      class: "link bus",
      d: `M${g.at([0, 0, 0]).x} ${y}H${g.at([Math.min(last, per - 1), 0, 0]).x}`,
    }),
  ];
  for (let i = 0; i <= last; i++) {
    const p = g.at([i, 0, 0]);
    lines.push(svg("path", { class: "link", d: `M${p.x} ${p.y}V${y}` }));
  }
  return svg("g", {}, lines);
}

// groupOf are the devices that differ from one along an axis alone, in the axis's order.
function groupOf(devices, device, axis) {
  if (!device || device.coords[axis] === undefined) return [];
  return [...devices.values()]
    .filter((d) =>
      Object.entries(device.coords).every(([name, v]) => name === axis || d.coords[name] === v),
    )
    .sort((a, b) => a.coords[axis] - b.coords[axis]);
}

// ring joins the devices of a group, the last to the first.
function ring(g, group) {
  if (group.length < 2) return null;
  const points = group.map((d) => g.at(d.at));
  return svg("path", {
    class: "group",
    d: "M" + points.map((p) => `${p.x} ${p.y}`).join("L") + (group.length > 2 ? "Z" : ""),
  });
}

// draw shows the slice. on: {colour(name), device(id)}.
export function draw(section, topo, plan, state, shards, on) {
  const devices = places(topo);
  const sizes = axes(plan.mesh).filter((a) => a.size > 1);
  const choices = [...sizes.map((a) => a.name), ...(shards ? ["tensor"] : [])];
  let by = choices.includes(state.colour) ? state.colour : shards ? "tensor" : preferred(sizes);
  const paint = painter(by, sizes, shards);
  const selected = devices.get(Number(state.device === "" ? NaN : state.device));
  put(
    section,
    el(
      "div",
      { class: "card-head" },
      el(
        "h2",
        { id: "slice-title" },
        topo.name + (topo.spec !== topo.name ? " " : ""),
        topo.spec !== topo.name && el("small", { text: topo.spec }),
      ),
      choices.length > 0 &&
        el(
          "div",
          { class: "segments", role: "radiogroup", "aria-label": "Colour devices by" },
          el("span", { class: "quiet-text", text: "colour by" }),
          choices.map((name) =>
            el(
              "label",
              { class: name === by ? "on" : "" },
              el("input", {
                type: "radio",
                name: "colour",
                value: name,
                checked: name === by,
                on: { change: () => on.colour(name) },
              }),
              name,
            ),
          ),
        ),
    ),
    el("p", { class: "facts", text: facts(topo) }),
    figure(section, topo, devices, paint, by, selected, on),
    described(selected, topo),
    sizes.length > 0 && topo.mesh && layoutTable(topo),
  );
}

const preferred = (sizes) =>
  ["tp", "sp", "dp", "fsdp"].find((n) => sizes.some((a) => a.name === n)) ?? sizes[0]?.name ?? "";

// painter gives each device its colour, the i-th of n: its index along an axis, or its shard.
function painter(by, sizes, shards) {
  if (by === "tensor") {
    const index = new Map(),
      of = new Map();
    for (const d of shards.devices) {
      const key = JSON.stringify(d.ranges);
      if (!index.has(key)) index.set(key, index.size);
      of.set(d.position, index.get(key));
    }
    return (d) =>
      of.has(d.position)
        ? {
            i: of.get(d.position),
            n: Math.max(2, index.size),
            text: index.size > 1 ? "part " + of.get(d.position) : "whole",
          }
        : { i: 0, n: 1, text: "none" };
  }
  const axis = sizes.find((a) => a.name === by);
  return (d) =>
    axis
      ? { i: d.coords[by], n: axis.size, text: `${by} ${d.coords[by]}` }
      : { i: 0, n: 1, text: "" };
}

function figure(section, topo, devices, paint, by, selected, on) {
  if (devices.size > maxChips) {
    return el("p", {
      class: "empty",
      text:
        `${many(topo.devices, "device")} are too many to draw; ` +
        `up to ${maxChips.toLocaleString("en")} are.`,
    });
  }
  const g = geometry(topo, Math.max(260, Math.min(760, section.clientWidth - 40)));
  const perChip = topo.rates_per_device.devices_per_chip || 1;
  const twoCores = topo.cores && topo.chips && topo.cores / topo.chips > perChip;
  const first = selected ?? devices.values().next().value;
  const nodes = new Map();
  const group = by === "tensor" ? [] : groupOf(devices, selected, by);
  const chips = [...devices.values()].map((d) => {
    const c = g.at(d.at),
      p = paint(d);
    const core = perChip > 1 ? d.id % perChip : 0;
    const w = g.cell / perChip;
    const x = c.x - g.cell / 2 + core * w,
      y = c.y - g.cell / 2;
    const mid = x + w / 2;
    const label =
      `device ${d.id}, chip at ${d.at.slice(0, g.grid ? 3 : 1).join(" ")}, host ${d.host}` +
      Object.entries(d.coords)
        .map(([n, v]) => `, ${n} ${v}`)
        .join("") +
      (by === "tensor" ? ", " + p.text : "");
    const node = svg(
      "g",
      {
        class: "device" + (d === selected ? " chosen" : group.includes(d) ? " member" : ""),
        role: "button",
        tabindex: d === first ? 0 : -1,
        "aria-pressed": d === selected ? "true" : "false",
        "aria-label": label,
        data: { id: d.id },
        on: {
          click: () => on.device(d.id),
          keydown: (event) => move(event, d, devices, nodes, on),
        },
      },
      svg("title", { text: label }),
      svg("rect", {
        x: x + (perChip > 1 ? 1 : 0),
        y,
        width: w - (perChip > 1 ? 2 : 0),
        height: g.cell,
        rx: Math.min(9, g.cell * 0.16),
        style: p.n > 1 ? { fill: colour(p.i, p.n) } : {},
      }),
      twoCores &&
        g.cell >= 30 &&
        svg("path", { class: "cores", d: `M${mid} ${y + 4}v${g.cell - 8}` }),
      g.cell >= 15 &&
        svg("text", {
          class: "id",
          x: mid,
          y: c.y + (g.cell >= 46 ? -g.cell * 0.08 : g.cell * 0.12),
          style: { "font-size": Math.min(19, g.cell * (perChip > 1 ? 0.26 : 0.34)) + "px" },
          text: d.id,
        }),
      g.cell >= 46 &&
        svg("text", {
          class: "what",
          x: mid,
          y: c.y + g.cell * 0.2,
          style: { "font-size": Math.min(12, g.cell * (perChip > 1 ? 0.15 : 0.2)) + "px" },
          text: p.text,
        }),
      g.cell >= 46 &&
        perChip === 1 &&
        g.grid &&
        svg("text", {
          class: "at",
          x: mid,
          y: c.y + g.cell * 0.4,
          style: { "font-size": Math.min(10, g.cell * 0.16) + "px" },
          text: d.at.slice(0, g.z > 1 ? 3 : 2).join(","),
        }),
    );
    nodes.set(d.id, node);
    return node;
  });
  const layers =
    g.z > 1
      ? Array.from({ length: g.z }, (_, z) => {
          const p = g.at([0, 0, z]);
          return svg("text", {
            class: "layer",
            x: p.x - g.cell / 2,
            y: p.y - g.step / 2 - 16,
            text: "z = " + z,
          });
        })
      : [];
  const key = [];
  if (g.grid && topo.link_devices.length <= maxLinks && topo.link_devices.length > 0) {
    key.push("lines are links");
    if (topo.wrap?.some(Boolean)) key.push("dashed ones close rings");
    if (g.z > 1) key.push("ticks at corners lead to the next layer");
  } else if (g.grid && topo.link_devices.length > maxLinks)
    key.push(`${many(topo.link_devices.length, "link")} are too many to draw`);
  if (topo.kind === "gpu" && topo.rates_per_device.link_bytes)
    key.push("the bar is the switch that joins every two");
  if (twoCores) key.push("a chip's two cores are one device");
  if (group.length > 1) key.push(`the loop is the ${by} group of device ${selected.id}`);
  return el(
    "figure",
    { class: "drawing" },
    svg(
      "svg",
      {
        viewBox: `0 0 ${g.width} ${g.height}`,
        width: g.width,
        height: g.height,
        role: "group",
        "aria-label": `${topo.name}: ${many(topo.devices, "device")}; arrow keys move`,
      },
      hosts(topo, g, devices),
      links(topo, g, devices),
      bus(topo, g),
      ring(g, group),
      chips,
      layers,
    ),
    key.length > 0 && el("figcaption", { text: key.join("; ") + "." }),
  );
}

// move goes to the next chip by arrow, to the next layer by page keys.
function move(event, d, devices, nodes, on) {
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    on.device(d.id);
    return;
  }
  const way = {
    ArrowRight: [1, 0, 0],
    ArrowLeft: [-1, 0, 0],
    ArrowDown: [0, 1, 0],
    ArrowUp: [0, -1, 0],
    PageDown: [0, 0, 1],
    PageUp: [0, 0, -1],
  }[event.key];
  if (!way) return;
  event.preventDefault();
  const twins = [...devices.values()].filter((x) => x.at.join() === d.at.join());
  const at = twins.indexOf(d);
  let next = way[0] !== 0 && twins[at + way[0]];
  if (!next) {
    const goal = d.at.map((v, i) => v + way[i]).join();
    const there = [...devices.values()].filter((x) => x.at.join() === goal);
    next = way[0] < 0 ? there.at(-1) : there[way[0] !== 0 ? 0 : Math.min(at, there.length - 1)];
  }
  if (!next) return;
  nodes.get(d.id).setAttribute("tabindex", "-1");
  nodes.get(next.id).setAttribute("tabindex", "0");
  nodes.get(next.id).focus();
}

function facts(topo) {
  const out = [];
  if (topo.kind === "tpu")
    out.push(`${many(topo.chips, "chip")} in ${topo.topology}`, many(topo.cores, "core"));
  out.push(many(topo.devices, "device"));
  if (topo.hosts) out.push(many(topo.hosts, "host"));
  else if (topo.host_options)
    out.push(topo.host_options.map((o) => o.hosts).join(" or ") + " hosts");
  if (topo.kind === "tpu") out.push(many(topo.links, "link"), wraps(topo.wrap));
  if (topo.hbm_bytes_per_device) out.push(bytes(topo.hbm_bytes_per_device) + " a device");
  return out.join(" · ");
}

function wraps(wrap) {
  if (!wrap) return "whether dims close to rings is not known";
  const closed = ["x", "y", "z"].filter((_, i) => wrap[i]);
  return closed.length
    ? closed.join(", ") + (closed.length > 1 ? " close to rings" : " closes to rings")
    : "no dim closes to a ring";
}

const chipOf = (d, topo) =>
  d.at.slice(0, topo.kind === "tpu" ? topo.topology.split("x").length : 1).join(",");

const described = (d, topo) =>
  el(
    "p",
    { class: "chosen-device", "aria-live": "polite" },
    d
      ? `Device ${d.id}: chip ${chipOf(d, topo)}, host ${d.host}; ` +
          Object.entries(d.coords)
            .map(([n, v]) => `${n} ${v}`)
            .join(", ")
      : "Choose a device to see what it holds.",
  );

function layoutTable(topo) {
  const l = topo.mesh.layout;
  const rows = l.axes.filter((a) => a.size > 1);
  return el(
    "table",
    { class: "figures" },
    el("caption", {
      text:
        l.order === "torus"
          ? "Hops between neighbours: the axes are laid on the links, the busiest over single hops"
          : "Hops between neighbours, in the plain order",
    }),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        ["axis", "devices", "longest hop", "hosts spanned"].map((t, i) =>
          el("th", { scope: "col", class: i ? "num" : "", text: t }),
        ),
      ),
    ),
    el(
      "tbody",
      {},
      rows.map((a) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, el("span", { class: "pill axis-" + a.axis, text: a.axis })),
          el("td", { class: "num", text: a.size }),
          el("td", { class: "num", text: a.max_hops }),
          el("td", { class: "num", text: a.hosts }),
        ),
      ),
    ),
  );
}
