// What a request would take, as one types.

import { post, Refusal } from "./api.js";
import { byId, el, put } from "./dom.js";
import { body, picturesOf, showRefusals, values } from "./form.js";
import { formatBytes, formatSeconds } from "./format.js";

let timer, control;
const after = 350; // milliseconds without typing

// planSoon plans the form's request when the typing pauses.
export function planSoon() {
  clearTimeout(timer);
  control?.abort();
  timer = setTimeout(plan, after);
}

async function plan() {
  const fields = values();
  if (!fields.prompt) {
    showRefusals([]);
    put(
      byId("plan"),
      el("p", {
        class: "quiet-text",
        text: "Say what the video shows, and what it takes is told here.",
      }),
    );
    return;
  }
  const mine = (control = new AbortController());
  try {
    const doc = await post("/v1/plan", { body: body(fields, picturesOf()), signal: mine.signal });
    if (mine.signal.aborted) return;
    showRefusals([]);
    show(doc);
  } catch (error) {
    if (mine.signal.aborted) return;
    if (!(error instanceof Refusal)) throw error;
    put(
      byId("plan"),
      el("p", {
        class: "quiet-text",
        text: error.status
          ? "It cannot be made so."
          : "What it takes is not known: the service does not answer.",
      }),
    );
    if (error.status) showRefusals(error.violations);
  }
}

function show(doc) {
  const { planned } = doc;
  const parts = [`${doc.size}, ${doc.num_frames} frames, ${doc.seconds} s at ${doc.fps} a second`];
  if (planned.seconds > 0) parts.push(`takes about ${formatSeconds(planned.seconds)}`);
  if (planned.memory_bytes > 0)
    parts.push(
      formatBytes(planned.memory_bytes) +
        (planned.memory_limit_bytes > 0
          ? ` of a device's ${formatBytes(planned.memory_limit_bytes)}`
          : " on a device"),
    );
  parts.push(
    doc.queued === 0
      ? "nothing waits before it"
      : `${doc.queued} wait${doc.queued === 1 ? "s" : ""} before it` +
          (doc.wait_seconds > 0 ? `, about ${formatSeconds(doc.wait_seconds)}` : ""),
  );
  put(
    byId("plan"),
    el("p", { text: parts.join(" · ") }),
    doc.notes.length > 0 &&
      el(
        "details",
        {},
        el("summary", { text: `Notes (${doc.notes.length})` }),
        doc.notes.map((n) => el("p", { class: "quiet-text", text: n })),
      ),
  );
}
