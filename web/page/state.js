// The state is the address: a link shows what its sender saw, and back goes back.

// The question, in the words of the flags; then what is looked at.
const question = [
  "model",
  "size",
  "frames",
  "on",
  "dtype",
  "batch",
  "cfg",
  "attention",
  "split-residual",
  "text-len",
];
const view = [
  "slice",
  "mesh",
  "fsdp",
  "colour",
  "tensor",
  "device",
  "find",
  "role",
  "refused",
  "pin",
  "explain",
];

export const defaults = {
  model: "wan2.1-t2v-14b",
  size: "832x480",
  frames: "81",
  on: "v4-8",
  dtype: "bf16",
  batch: "1",
  cfg: "",
  attention: "auto",
  "split-residual": "",
  "text-len": "",
};

// read gives the state of an address; what it does not say is the default.
export function read(search) {
  const params = new URLSearchParams(search);
  const state = {};
  for (const key of question) state[key] = params.get(key) ?? defaults[key];
  for (const key of view) state[key] = params.get(key) ?? "";
  return state;
}

// write gives the address of a state, below the page's own. The question is always there in full.
export function write(state) {
  const params = new URLSearchParams();
  for (const key of question) if (state[key] !== "") params.set(key, state[key]);
  for (const key of view) if (state[key] !== "") params.set(key, state[key]);
  return (
    "?" + params.toString().replaceAll("%2C", ",").replaceAll("%3D", "=").replaceAll("%3A", ":")
  );
}

// ask is the part of a state that the server is asked.
export const ask = (state) =>
  Object.fromEntries(question.filter((k) => state[k] !== "").map((k) => [k, state[k]]));

// askPlan adds one plan to it.
export function askPlan(state, plan) {
  const q = { ...ask(state), on: plan.slice, mesh: plan.mesh };
  if (plan.fsdp.length) q.fsdp = plan.fsdp.join(",");
  return q;
}

// pinned is a plan with its question as one value, and unpin reads it.
export const pinned = (state, plan) => new URLSearchParams(askPlan(state, plan)).toString();

export function unpin(text) {
  const { mesh = "", fsdp = "", ...rest } = Object.fromEntries(new URLSearchParams(text));
  return { query: rest, slice: rest.on || "", mesh, fsdp };
}
