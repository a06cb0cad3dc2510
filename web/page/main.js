// The page: the state is the address; when it changes, what it needs is fetched and drawn.

import { get, Problem } from "./api.js";
import * as compare from "./compare.js";
import * as detail from "./detail.js";
import { byId, el, put } from "./dom.js";
import * as explain from "./explain.js";
import { bytes, count, many, seconds, shares, splitName } from "./format.js";
import * as slice from "./slice.js";
import * as splits from "./splits.js";
import { ask, askPlan, defaults, pinned, read, unpin, write } from "./state.js";
import * as tensor from "./tensor.js";

let state = read(location.search);
let choices; // what the form offers
let shown = {}; // {question, result, plan, topo, split, shards, made, pin}

const form = byId("ask");
const sections = ["splits", "compare", "detail", "slice", "explain", "run", "tensor"];
const banner = (title, ...lines) => window.weftBanner.show(title, lines, undefined);

// set changes the state as the user does: back undoes it.
function set(changes, replace) {
  state = { ...state, ...changes };
  history[replace ? "replaceState" : "pushState"](null, "", write(state));
  return update();
}

let turn = 0; // of the newest update
let opened = false; // a figure's explanation, by the user

// update fetches what the state needs and draws it.
async function update() {
  const mine = ++turn;
  const main = byId("main");
  fillForm();
  main.setAttribute("aria-busy", "true");
  try {
    const question = JSON.stringify(ask(state));
    if (shown.question !== question) {
      const result = await get("plan", ask(state));
      if (result === undefined) return; // a newer question is under way
      window.weftBanner.hide();
      shown = { question, result, pin: shown.pin };
    }
    await drawPlans();
  } catch (error) {
    show(error);
  } finally {
    if (mine === turn) main.setAttribute("aria-busy", "false");
  }
}

// show puts an error where it is seen: a refusal beside the form, a failure on top.
function show(error) {
  if (!(error instanceof Problem)) throw error; // boot.js shows it
  if (error.violations.some((v) => v.kind === "network" || v.kind === "answer")) {
    window.weftBanner.show(
      error.title,
      error.violations.map((v) => v.message),
      update,
    );
    return;
  }
  shown = { pin: shown.pin };
  for (const id of sections) byId(id).hidden = true;
  put(
    byId("answer"),
    el(
      "div",
      { class: "problem", role: "alert" },
      el("h1", { text: error.title }),
      el(
        "ul",
        {},
        error.violations.map((v) =>
          el(
            "li",
            {},
            el("span", { class: "kind", text: v.kind }),
            el("span", { text: v.message }),
            suggestions(v),
          ),
        ),
      ),
    ),
  );
}

// suggestions are the nearest right names that a refusal gives, as buttons.
function suggestions(violation) {
  const field = { "unknown-slice": ["on", "nearest"], "unknown-model": ["model", "known"] }[
    violation.kind
  ];
  const names = field ? violation.fields?.[field[1]] : undefined;
  if (!names?.length) return null;
  return el(
    "span",
    { class: "suggestions" },
    names.slice(0, 8).map((name) =>
      el("button", {
        type: "button",
        text: name,
        on: { click: () => set({ [field[0]]: name }) },
      }),
    ),
  );
}

// named is the plan that the state names, pick that or the best.
const named = (plans) =>
  plans.find(
    (p) =>
      p.mesh === state.mesh &&
      p.fsdp.join(",") === state.fsdp &&
      (state.slice === "" || p.slice === state.slice),
  );
const pick = (plans) => named(plans) ?? plans[0];

// drawPlans draws the list at once and what hangs on one plan as it comes.
async function drawPlans() {
  const { result } = shown;
  const plan = pick(result.plans);
  answer(result);
  byId("splits").hidden = false;
  const focused = byId("splits").contains(document.activeElement)
    ? document.activeElement.closest(".row")
    : null;
  splits.draw(byId("splits"), result, plan, pinKey(), state, on);
  if (focused) byId("splits").querySelector('[aria-selected="true"]')?.focus();
  put(byId("notes"), result.notes.join(". ").replace(/\.?$/, "."));
  document.title = `${result.model} on ${result.on}: weft`;
  if (!plan) {
    for (const id of sections.slice(1)) byId(id).hidden = true;
    return;
  }
  if (shown.plan !== plan)
    shown = {
      ...shown,
      plan,
      topo: undefined,
      split: undefined,
      shards: undefined,
      made: undefined,
    };
  byId("detail").hidden = false;
  const asked = byId("detail").contains(document.activeElement)
    ? document.activeElement.dataset.figure
    : undefined;
  detail.draw(byId("detail"), plan, on);
  if (asked) focusFigure(asked);
  const pin = loadPin();
  await Promise.all([loadPlan(plan), loadMade(plan), pin]);
  if (shown.plan !== plan) return;
  drawMade();
  drawPin();
}

// focusFigure puts the focus on a figure of the plan.
function focusFigure(name) {
  byId("detail").querySelector(`[data-figure="${CSS.escape(name)}"]`)?.focus();
}

// loadMade fetches what made the figure that the state names. A figure that this plan does not
// have is said where the answer would be.
async function loadMade(plan) {
  const name = state.explain;
  if ((shown.made?.name ?? "") === name) return;
  let made;
  try {
    if (name !== "") {
      const q = { ...askPlan(state, plan), fsdp: shares(plan).join(",") || "none", figure: name };
      const doc = await get("explain", q);
      if (!doc) return; // another is asked for
      made = { name, doc };
    }
  } catch (error) {
    if (!(error instanceof Problem) || !error.violations.every((v) => v.kind === "unknown-figure"))
      throw error;
    made = { name, problem: error.message };
  }
  if (shown.plan === plan && state.explain === name) shown = { ...shown, made };
}

// drawMade shows what made a figure, and moves the focus to it when it is new.
function drawMade() {
  const section = byId("explain");
  const { made, split, plan } = shown;
  const fresh = made && section.dataset.figure !== made.name;
  section.hidden = !made;
  section.dataset.figure = made?.name ?? "";
  if (!made) {
    put(section);
    return;
  }
  const text = split?.commands.find((c) => c.name === "plan")?.text;
  const fsdp = shares(plan).join(",") || "none";
  const command = text && `${text} --fsdp ${fsdp} --explain ${made.name}`;
  explain.draw(section, made.name, made.doc, made.problem, command, on, banner);
  if (fresh && opened) byId("explain-title").focus();
  opened = false;
}

// loadPlan fetches and draws the slice, the commands and the tensors of a plan.
async function loadPlan(plan) {
  if (!shown.topo) {
    const [topo, split] = await Promise.all([
      get("topo", { name: plan.slice, mesh: plan.mesh, bytes: axisBytes(plan) }),
      get("split", askPlan(state, plan)),
    ]);
    if (!topo || !split || shown.plan !== plan) return;
    shown = { ...shown, topo, split };
  }
  const wanted = shown.split.tensors.some((t) => t.name === state.tensor) ? state.tensor : "";
  if ((shown.shards?.name ?? "") !== wanted) {
    const shards =
      wanted === "" ? undefined : await get("shards", { ...askPlan(state, plan), tensor: wanted });
    if (shown.plan !== plan || (wanted !== "" && !shards)) return;
    shown = { ...shown, shards };
  }
  drawPlan();
}

function drawPlan() {
  const { plan, topo, split, shards } = shown;
  if (!topo) return;
  const focus = document.activeElement;
  const kept = focus?.closest?.(".device")?.dataset.id;
  const finding = focus?.id === "find";
  for (const id of ["slice", "run", "tensor"]) byId(id).hidden = false;
  detail.run(byId("run"), split.commands, banner);
  slice.draw(byId("slice"), topo, plan, state, shards, on);
  tensor.draw(
    byId("tensor"),
    split.tensors,
    shards,
    topo.mesh.order,
    { ...state, tensor: shards?.name ?? "" },
    on,
  );
  if (kept !== undefined) byId("slice").querySelector(`[data-id="${kept}"]`)?.focus();
  if (finding) byId("find").focus();
}

// axisBytes is what each axis moves, as weft topo --bytes takes it.
function axisBytes(plan) {
  const moved = {};
  for (const [joined, n] of Object.entries(plan.collective_bytes))
    for (const axis of joined.split("+")) moved[axis] = (moved[axis] ?? 0) + n;
  return Object.entries(moved).map(([axis, n]) => `${axis}=${n}`);
}

// loadPin fetches the pinned plan, whatever its question was. One that cannot be had is
// let go, with the reasons.
async function loadPin() {
  if (state.pin === "") shown.pin = undefined;
  if (state.pin === "" || shown.pin?.key === state.pin) return;
  const key = state.pin;
  const { query, mesh, fsdp } = unpin(key);
  try {
    const [result, split] = await Promise.all([
      get("plan", { ...query, mesh }, "pin"),
      get("split", { ...query, mesh, ...(fsdp && { fsdp }) }, "pin-split"),
    ]);
    if (!result || !split) return;
    const plan = result.plans.find((p) => p.fsdp.join(",") === fsdp);
    if (!plan)
      throw new Problem("", [{ kind: "pin", message: `${mesh}: no such plan`, fields: {} }]);
    shown.pin = { key, plan, result, commands: split.commands };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    banner("The pinned plan cannot be had", ...error.violations.map((v) => v.message));
    shown.pin = undefined;
    state = { ...state, pin: "" };
    history.replaceState(null, "", write(state));
  }
}

// drawPin puts it beside the selected one.
function drawPin() {
  const section = byId("compare");
  const { pin, plan, result, split } = shown;
  section.hidden = !pin || !split;
  if (section.hidden) return;
  const title = (r) => `${r.model} · ${r.size} · ${many(r.frames, "frame")} · ${r.dtype}`;
  compare.draw(
    section,
    [
      { title: title(pin.result), plan: pin.plan, commands: pin.commands },
      { title: title(result), plan, commands: split.commands },
    ],
    { unpin: () => set({ pin: "" }) },
    banner,
  );
}

// pinKey is the pinned plan among those shown.
function pinKey() {
  if (state.pin === "") return "";
  const { query, slice: on, mesh, fsdp } = unpin(state.pin);
  const { on: _, ...rest } = ask(state);
  const same = Object.entries(rest).every(([k, v]) => (query[k] ?? defaults[k]) === v);
  return same ? [on, mesh, fsdp].join("|") : "";
}

// answer says in a sentence what was found.
function answer(result) {
  const fit = result.plans.filter((p) => p.fits);
  const best = result.plans[0];
  const all = result.on === "all";
  const unknown = best && best.fits === null;
  const head = unknown
    ? `Whether it fits on ${result.on} is unknown`
    : fit.length
      ? all
        ? `Smallest: ${best.slice}`
        : `Fits on ${result.on}`
      : all
        ? "Nothing that weft knows is large enough"
        : result.plans.length
          ? `Does not fit on ${result.on}`
          : `No legal split of ${result.on}`;
  const counts = all
    ? `${many(result.plans.length, "kind")} of hardware can run it`
    : `${result.plans.length} of ` +
      `${many(result.plans.length + result.refused.length, "split")} legal, ` +
      `${fit.length} ${fit.length === 1 ? "fits" : "fit"}`;
  put(
    byId("answer"),
    el("h1", { class: fit.length ? "yes" : "no" }, head),
    best &&
      el(
        "p",
        {},
        fit.length || unknown ? "Best: " : "Nearest: ",
        el("strong", { text: splitName(best) }),
        `, ${bytes(best.hbm_bytes_per_device)}` +
          (best.hbm_limit_bytes ? ` of ${bytes(best.hbm_limit_bytes)}` : "") +
          ` a device, about ${seconds(best.step_seconds)} a step. `,
        el("span", { class: "quiet-text", text: counts + "." }),
      ),
    !fit.length &&
      best?.change &&
      el(
        "p",
        {},
        best.advice
          ? ["This would fit: ", el("code", { text: best.change })]
          : best.change.split("; ")[0] + ".",
      ),
    !fit.length &&
      !all &&
      el(
        "p",
        {},
        el("button", {
          type: "button",
          text: "Look at all hardware",
          on: { click: () => set({ on: "all", slice: "", mesh: "", fsdp: "", device: "" }) },
        }),
      ),
    state.mesh !== "" &&
      !named(result.plans) &&
      el("p", {
        class: "note",
        text:
          `${state.mesh}${state.fsdp && " with shares over " + state.fsdp} is not among ` +
          "the legal splits of this question; the best is shown.",
      }),
    result.efficiency &&
      el("p", {
        class: "quiet-text",
        text: `Times rest on ${result.efficiency} efficiencies: they rank splits.`,
      }),
  );
}

// What the drawings report.
const on = {
  select(plan) {
    return set({ slice: plan.slice, mesh: plan.mesh, fsdp: plan.fsdp.join(","), device: "" });
  },
  pin(plan) {
    const text = pinned(state, plan);
    return set({ pin: state.pin === text ? "" : text });
  },
  refused: (open) => {
    if ((state.refused === "open") !== open) set({ refused: open ? "open" : "" }, true);
  },
  colour: (name) => set({ colour: name }),
  device: (id) => set({ device: String(id) === state.device ? "" : String(id) }),
  find(find, role) {
    // the list fills itself
    state = { ...state, find, role };
    history.replaceState(null, "", write(state));
  },
  tensor: (name) => set({ tensor: name, colour: name ? "tensor" : "" }),
  async explain(name) {
    const before = state.explain;
    opened = name !== "";
    await set({ explain: name });
    if (name === "") focusFigure(before);
  },
};

// fillForm puts the state into the form.
function fillForm() {
  for (const input of form.elements) {
    if (!input.name) continue;
    if (input.type === "checkbox") input.checked = state[input.name] === "true";
    else if (input !== document.activeElement || input.tagName === "SELECT")
      input.value = state[input.name];
  }
}

// askForm reads the form: another question forgets what was looked at in the answer to the last.
function askForm() {
  const changes = {};
  for (const input of form.elements) {
    if (!input.name) continue;
    const value = input.type === "checkbox" ? (input.checked ? "true" : "") : input.value.trim();
    if (value !== state[input.name]) changes[input.name] = value;
  }
  if (Object.keys(changes).length === 0) return;
  if (changes.on !== undefined)
    Object.assign(changes, { slice: "", mesh: "", fsdp: "", device: "" });
  set(changes);
}

function offer() {
  const options = (list, value, label) =>
    list.map((x) => el("option", { value: value(x), text: label(x) }));
  put(
    form.elements.model,
    options(
      choices.models,
      (m) => m.name,
      (m) => `${m.name} (${count(m.elements)})`,
    ),
  );
  put(form.elements.dtype, options(choices.dtypes, String, String));
  put(
    form.elements.cfg,
    options(
      choices.cfg,
      String,
      (c) =>
        ({
          "": "as released",
          batch: "as one batch",
          sequential: "pass after pass",
          none: "one pass",
        })[c] ?? c,
    ),
  );
  put(
    form.elements.attention,
    options(
      choices.attention,
      String,
      (a) => ({ auto: "best there is", blocked: "in loops", kernel: "TPU kernel" })[a] ?? a,
    ),
  );
  put(byId("sizes"), options(choices.sizes, String, String));
  put(byId("frame-counts"), options(choices.frames, String, String));
  put(
    byId("slices"),
    el("option", { value: "all", text: "the smallest of every kind that does" }),
    options(
      choices.slices,
      (s) => s.name,
      (s) =>
        many(s.devices, "device") +
        (s.hbm_bytes_per_device ? ", " + bytes(s.hbm_bytes_per_device) + " each" : ""),
    ),
  );
  if (!choices.models.some((m) => m.name === state.model))
    form.elements.model.append(el("option", { value: state.model, text: state.model }));
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  askForm();
});
form.addEventListener("change", askForm);
form.addEventListener("input", (event) => {
  const list = event.target.list;
  if (
    list &&
    [...list.options].some((o) => o.value === event.target.value) &&
    event.inputType !== "insertText" &&
    event.inputType !== "deleteContentBackward"
  )
    askForm();
});
form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.tagName === "INPUT") {
    event.preventDefault();
    askForm();
  }
});
window.addEventListener("popstate", () => {
  state = read(location.search);
  update();
});
byId("explain").addEventListener("keydown", (event) => {
  if (event.key === "Escape") on.explain("");
});
document.addEventListener("keydown", (event) => {
  if (
    event.key === "/" &&
    !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) &&
    byId("find")
  ) {
    event.preventDefault();
    byId("find").focus();
  }
});
byId("copy-link").addEventListener("click", async (event) => {
  try {
    await navigator.clipboard.writeText(location.href);
    event.target.textContent = "Copied";
    setTimeout(() => {
      event.target.textContent = "Copy link";
    }, 1500);
  } catch (error) {
    banner("The browser does not let the page copy", error.message);
  }
});

let width = window.innerWidth;
let resized;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return;
  width = window.innerWidth;
  clearTimeout(resized);
  resized = setTimeout(drawPlan, 150);
});

async function start() {
  try {
    choices = await get("choices", {});
    offer();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    window.weftBanner.show(
      error.title,
      error.violations.map((v) => v.message),
      start,
    );
    return;
  }
  await update();
}

start();
