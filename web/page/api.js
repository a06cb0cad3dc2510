// Requests to the server. A refusal or a failure is thrown as a Problem, for the
// caller to show.

export class Problem extends Error {
  // violations: [{kind, message, fields}]
  constructor(title, violations) {
    super(violations.map((v) => v.message).join("; "));
    this.title = title;
    this.violations = violations;
  }
}

const running = new Map();

// get asks /api/path. A newer request of the same slot calls off the older one,
// which then gives undefined.
export async function get(path, query, slot = path) {
  running.get(slot)?.abort();
  const control = new AbortController();
  running.set(slot, control);
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    for (const v of Array.isArray(value) ? value : [value]) params.append(key, v);
  }
  let response, text;
  try {
    response = await fetch("/api/" + path + "?" + params, { signal: control.signal });
    text = await response.text();
  } catch (error) {
    if (control.signal.aborted) return undefined;
    throw new Problem("The server does not answer", [
      {
        kind: "network",
        message: `weft serve has ended, or cannot be reached (${error.message})`,
        fields: {},
      },
    ]);
  } finally {
    if (running.get(slot) === control) running.delete(slot);
  }
  let doc;
  try {
    doc = JSON.parse(text);
  } catch {
    throw new Problem("The server's answer cannot be read", [
      {
        kind: "answer",
        message: `${response.status} ${response.statusText}: ${text.slice(0, 200)}`,
        fields: {},
      },
    ]);
  }
  if (!response.ok)
    throw new Problem(
      response.status >= 500 ? "The server failed" : "This cannot be planned",
      doc.error?.violations ?? [{ kind: "answer", message: text.slice(0, 200), fields: {} }],
    );
  return doc;
}
