// What is known of the videos. Events and answers come in any order; each has a whole video with
// its revision, and of two the one with the larger revision is newer.

const videos = new Map();
const gone = new Set(); // ids that were deleted; an id is never used again
const listeners = new Set();
let told = false;

export const all = () => [...videos.values()];
export const find = (id) => videos.get(id);

// watch calls a function after the videos changed: with those that were put, and what each was.
export const watch = (act) => listeners.add(act);

let changed = new Map(); // id -> what the video was before

function tell(id, before) {
  if (!changed.has(id)) changed.set(id, before);
  if (told) return;
  told = true;
  queueMicrotask(() => {
    told = false;
    const these = changed;
    changed = new Map();
    for (const act of listeners) act(these);
  });
}

// put takes a video as an event or an answer has it. places says that the answer tells places in
// the queue, which events of all videos do not.
export function put(video, places) {
  if (gone.has(video.id)) return;
  const known = videos.get(video.id);
  const [is, was] = [BigInt(video.revision), known ? BigInt(known.revision) : -1n];
  if (is < was || (is === was && !places)) return;
  if (!places && known?.queue && video.state === "queued") video = { ...video, queue: known.queue };
  videos.set(video.id, video);
  tell(video.id, known);
}

// remove forgets a video that was deleted.
export function remove(id) {
  gone.add(id);
  const known = videos.get(id);
  if (videos.delete(id)) tell(id, known);
}

// keepOnly removes those of some videos that a whole list, asked for later, has not.
export function keepOnly(known, listed) {
  for (const id of known) if (!listed.has(id)) remove(id);
}

// forgetAll is for another user.
export function forgetAll() {
  for (const [id, video] of videos) {
    videos.delete(id);
    tell(id, video);
  }
}
