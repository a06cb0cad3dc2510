// Keeps the videos true: a stream of events, and the whole state each time that it opens.

import { get } from "./api.js";
import * as videos from "./videos.js";

const pageSize = 100;
const slowest = 15000; // milliseconds between two tries

let source,
  last = "",
  retry,
  wait = 1000;
let onState = () => {};
let onQueue = () => {};

// follow starts the stream. show is told whether it is open; queue gets the state of the queue.
export function follow(show, queue) {
  onState = show;
  onQueue = queue;
  open();
}

// stop ends the stream.
export function stop() {
  clearTimeout(retry);
  source?.close();
  source = undefined;
}

// restart begins anew, as another user.
export function restart() {
  last = "";
  videos.forgetAll();
  open();
}

function open() {
  stop();
  const mine = new EventSource("/v1/events" + (last ? "?after=" + last : ""));
  source = mine;
  const take = (act) => (event) => {
    if (source !== mine) return;
    if (event.lastEventId) last = event.lastEventId;
    act(JSON.parse(event.data));
  };
  mine.addEventListener("open", () => {
    if (source !== mine) return;
    wait = 1000;
    onState("open");
    sync();
  });
  mine.addEventListener(
    "video",
    take((video) => {
      const before = videos.find(video.id)?.state;
      videos.put(video, false);
      if (video.state !== before) syncSoon();
    }),
  );
  mine.addEventListener(
    "deleted",
    take((doc) => {
      videos.remove(doc.id);
      syncSoon();
    }),
  );
  mine.addEventListener("error", () => {
    if (source !== mine) return;
    onState("lost");
    // A browser reconnects by itself, with the last id, but not after a refusal.
    if (mine.readyState === EventSource.CLOSED) openLater();
  });
}

async function openLater() {
  stop();
  try {
    await get("/v1/session");
  } catch (error) {
    if (error.status === 401) return; // whoever logs in opens it
  }
  clearTimeout(retry);
  retry = setTimeout(open, wait);
  wait = Math.min(2 * wait, slowest);
}

// readList asks for pages of the list, the newest videos first, until enough is known.
async function readList(enough) {
  const listed = new Set();
  for (let after = ""; ;) {
    const page = await get(`/v1/videos?limit=${pageSize}${after && "&after=" + after}`);
    for (const video of page.data) {
      listed.add(video.id);
      videos.put(video, true);
    }
    if (!page.has_more || enough(listed)) return listed;
    after = page.last_id;
  }
}

// sync asks for the whole state.
async function sync() {
  const known = videos.all().map((v) => v.id);
  try {
    videos.keepOnly(known, await readList(() => false));
    onQueue(await get("/v1/queue"));
  } catch {
    later = later ?? setTimeout(syncAgain, wait);
    return;
  }
  onState("known");
}

let later;

function syncAgain() {
  later = undefined;
  if (source?.readyState === EventSource.OPEN) sync();
}

const soon = 250; // milliseconds within which changes are one
let pending;

// syncSoon asks for the places in the queue, which events of all videos do not tell.
export function syncSoon() {
  pending =
    pending ??
    setTimeout(async () => {
      pending = undefined;
      const waiting = videos
        .all()
        .filter((v) => v.state === "queued")
        .map((v) => v.id);
      try {
        if (waiting.length) await readList((listed) => waiting.every((id) => listed.has(id)));
        onQueue(await get("/v1/queue"));
      } catch {
        // The stream is lost too, and all is asked for when it opens again.
      }
    }, soon);
}
