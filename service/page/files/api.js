// Requests to the service. Each refusal is thrown as a Refusal, for the caller to show.

export class Refusal extends Error {
  // violations: [{code, message, param, details}]; status 0 is of a service that does not answer.
  constructor(status, violations) {
    super(violations.map((v) => v.message).join("; "));
    this.status = status;
    this.violations = violations;
  }
}

// onUnauthorized is called when the service wants a token.
let onUnauthorized = () => {};
export const whenUnauthorized = (act) => (onUnauthorized = act);

// request sends a request and gives the document of the answer.
export async function request(method, path, { body, headers, signal, quiet } = {}) {
  let response, text;
  try {
    response = await fetch(path, { method, body, headers, signal, credentials: "same-origin" });
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal(0, [
      { code: "network", message: `the service does not answer (${error.message})`, param: null },
    ]);
  }
  let doc;
  try {
    doc = JSON.parse(text);
  } catch {
    doc = undefined;
  }
  if (response.ok && doc !== undefined) return doc;
  if (response.status === 401 && !quiet) onUnauthorized();
  throw new Refusal(
    response.status,
    doc?.error?.violations ?? [
      { code: "answer", message: `${response.status} ${text.slice(0, 200)}`, param: null },
    ],
  );
}

export const get = (path, options) => request("GET", path, options);
export const post = (path, options) => request("POST", path, options);

export const videoPath = (id) => "/v1/videos/" + encodeURIComponent(id);

export const contentPath = (id, variant) =>
  videoPath(id) + "/content" + (variant === "video" ? "" : "?variant=" + variant);

// randomKey is an idempotency key.
export const randomKey = () =>
  [...crypto.getRandomValues(new Uint8Array(16))]
    .map((b) => b.toString(16).padStart(2, "0"))
    .join("");
