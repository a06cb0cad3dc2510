// The queue: videos that run, wait or are paused, with their steps and previews.

import { get, post } from "./api.js";
import { action, arrange, change, deletion, fail } from "./cards.js";
import { byId, el } from "./dom.js";
import { formatBytes, formatSeconds, phaseText, placeText, shorten, stateName } from "./format.js";
import * as videos from "./videos.js";

const items = new Map();

const isWaiting = (v) => ["queued", "paused", "running"].includes(v.state);
const rank = (v) => (v.state === "running" ? 0 : v.state === "queued" ? 1 : 2);
const placeOf = (v) => v.queue?.place ?? Infinity;

// byTurn orders videos as they are made: what runs, what waits by its place, what is paused.
const byTurn = (a, b) =>
  rank(a) - rank(b) ||
  (placeOf(a) === placeOf(b) ? 0 : placeOf(a) - placeOf(b)) ||
  a.created_at - b.created_at ||
  (a.id < b.id ? -1 : 1);

export function draw() {
  const waiting = videos.all().filter(isWaiting).sort(byTurn);
  byId("waiting-none").hidden = waiting.length > 0;
  arrange(byId("waiting"), items, waiting, make, update);
}

function make(video) {
  const name = shorten(video.prompt, 40);
  const parts = {
    state: el("span", { class: "state" }),
    bar: el("progress", { max: 100, "aria-label": "Done of " + name }),
    what: el("p", { class: "quiet-text what" }),
    preview: el("img", { class: "preview", alt: "What the video looks like so far", hidden: true }),
    pause: action("Pause", "Pause " + name, change(video.id, "pause")),
    resume: action("Resume", "Resume " + name, change(video.id, "resume")),
    cancel: action("Cancel", "Cancel " + name, change(video.id, "cancel")),
  };
  const item = el(
    "li",
    { class: "waiting", data: { id: video.id } },
    parts.preview,
    el(
      "div",
      { class: "about" },
      el("p", { class: "prompt", text: shorten(video.prompt, 200), title: video.prompt }),
      el("p", {}, parts.state),
      parts.bar,
      parts.what,
      el(
        "div",
        { class: "actions" },
        parts.pause,
        parts.resume,
        parts.cancel,
        deletion(video.id, "Delete " + name),
      ),
    ),
  );
  item.parts = parts;
  return item;
}

function update(item, video) {
  const { state, bar, what, preview, pause, resume, cancel } = item.parts;
  const runs = video.state === "running";
  item.dataset.state = video.state;
  state.textContent = stateName(video);
  bar.value = video.progress;
  bar.hidden = !runs && video.progress === 0;
  let text = runs ? phaseText(video.phase) : placeText(video);
  if (!runs && video.planned?.seconds > 0)
    text += `; takes about ${formatSeconds(video.planned.seconds)}`;
  if (runs && video.phase?.memory_bytes > 0)
    text += `; ${formatBytes(video.phase.memory_bytes)} of memory`;
  if (video.tries > 1) text += `; try ${video.tries}`;
  what.textContent = text;
  preview.hidden = !video.preview;
  if (video.preview && preview.getAttribute("src") !== video.preview) preview.src = video.preview;
  // What has the focus is disabled and not hidden, so that the focus is not lost.
  pause.hidden = video.state === "paused" && document.activeElement !== pause;
  resume.hidden = video.state !== "paused";
  if (document.activeElement === pause && video.state === "paused") {
    resume.focus();
    pause.hidden = true;
  }
  cancel.disabled = video.wish === "cancel";
}

// The queue as a whole.

let queue;
let mayChange = false; // the queue as a whole

export function showQueue(doc) {
  queue = doc;
  const workers =
    doc.workers === 0
      ? "no worker lives"
      : doc.workers === 1
        ? "1 worker"
        : `${doc.workers} workers`;
  const parts = [
    `${doc.running} run${doc.running === 1 ? "s" : ""}, ${doc.queued} wait${doc.queued === 1 ? "s" : ""}`,
    workers,
  ];
  if (doc.seconds > 0)
    parts.push(`about ${formatSeconds(doc.seconds / Math.max(1, doc.workers))} to do`);
  if (doc.queue_paused) parts.unshift("The queue is paused");
  byId("queue-sum").textContent = parts.join(" · ");
  byId("queue-pause").hidden = !mayChange;
  byId("queue-pause").textContent = doc.queue_paused ? "Resume the queue" : "Pause the queue";
}

const often = 5000; // milliseconds: no event tells that the queue was paused

// follow keeps the state of the queue true. mayPause says whether the button is shown.
export function follow(mayPause) {
  const button = byId("queue-pause");
  mayChange = mayPause;
  button.onclick = async () => {
    try {
      showQueue(await post("/v1/queue/" + (queue?.queue_paused ? "resume" : "pause")));
    } catch (error) {
      fail("The queue stays as it is", error);
    }
  };
  setInterval(async () => {
    if (document.hidden) return;
    try {
      showQueue(await get("/v1/queue"));
    } catch {
      // The stream says that the service is gone.
    }
  }, often);
}
