// Numbers and splits as people read them. GB is 10^9 bytes, as in the command line.

export function bytes(n) {
  if (n === 0) return "0 B";
  for (const [unit, size] of [
    ["TB", 1e12],
    ["GB", 1e9],
    ["MB", 1e6],
    ["kB", 1e3],
  ]) {
    if (n >= size)
      return (n / size).toFixed(n / size >= 100 ? 0 : n / size >= 10 ? 1 : 2) + " " + unit;
  }
  return n + " B";
}

export function seconds(s) {
  if (s < 1) return Math.round(s * 1e3) + " ms";
  if (s < 100) return s.toFixed(1) + " s";
  if (s < 1e5) return Math.round(s) + " s";
  return s.toExponential(1) + " s";
}

export function count(n) {
  if (n >= 1e9) return (n / 1e9).toFixed(1) + " B";
  if (n >= 1e6) return Math.round(n / 1e6) + " M";
  return n.toLocaleString("en");
}

export const many = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

export const total = (byAxis) => Object.values(byAxis || {}).reduce((a, b) => a + b, 0);

// axes reads "dp=1,tp=4" as [{name, size}].
export const axes = (mesh) =>
  mesh
    .split(",")
    .filter(Boolean)
    .map((part) => {
      const [name, size] = part.split("=");
      return { name, size: Number(size) };
    });

// shares are the axes beside the mesh's own fsdp over which weights are kept in shares.
export const shares = (plan) => (plan.fsdp || []).filter((a) => a !== "fsdp");

// splitName is a plan's split in words.
export const splitName = (plan) =>
  plan.mesh + (shares(plan).length ? " fsdp:" + shares(plan).join(",") : "");

export const shape = (dims) => (dims.length ? dims.join(" × ") : "scalar");

// spec is a spec as the command line prints it: [tp,-] or [-]|tp.
export function spec(s) {
  const dims = (Array.isArray(s) ? s : s.dims).map((d) =>
    d === null ? "-" : Array.isArray(d) ? d.join("+") : d,
  );
  return "[" + dims.join(",") + "]" + (Array.isArray(s) ? "" : "|" + s.partial.join("+"));
}

// dimAxes are the axes that split a dim of a spec.
export function dimAxes(s, dim) {
  const d = (Array.isArray(s) ? s : s.dims)[dim];
  return d === null || d === undefined ? [] : Array.isArray(d) ? d : [d];
}
