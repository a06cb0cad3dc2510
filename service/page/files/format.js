// Numbers and states as people read them. GB is 10^9 bytes, as in the command line.

const units = ["B", "kB", "MB", "GB", "TB"];

export function formatBytes(n) {
  let unit = 0;
  for (; n >= 1000 && unit < units.length - 1; unit++) n /= 1000;
  return (unit === 0 || n >= 100 ? Math.round(n) : n.toPrecision(3)) + " " + units[unit];
}

// formatSeconds is a length of time, to two units.
export function formatSeconds(s) {
  if (s < 1) return Math.max(1, Math.round(1000 * s)) + " ms";
  if (s < 10) return s.toFixed(1) + " s";
  if (s < 90) return Math.round(s) + " s";
  const minutes = Math.round(s / 60);
  if (minutes < 90) return minutes + " min";
  return Math.floor(minutes / 60) + " h " + (minutes % 60) + " min";
}

export const formatValue = (value) => (Array.isArray(value) ? value.join(", ") : String(value));

export const formatTime = (unix) => new Date(1000 * unix).toLocaleString();

const stateNames = {
  queued: "Waits",
  paused: "Paused",
  running: "Runs",
  completed: "Done",
  failed: "Failed",
  cancelled: "Cancelled",
};

export const stateName = (video) =>
  (stateNames[video.state] ?? video.state) +
  (video.wish === "cancel"
    ? ", is being cancelled"
    : video.wish === "pause"
      ? ", is being paused"
      : "");

const phaseNames = {
  text: "Reading the prompt",
  image: "Reading the picture",
  denoise: "Denoising",
  decode: "Decoding frames",
};

// phaseText says what is being done: the phase, its step and the time that is left of it.
export function phaseText(phase) {
  if (!phase?.name) return "Begins";
  let text = phaseNames[phase.name] ?? phase.name;
  if (phase.of > 0) text += ` ${phase.step} of ${phase.of}`;
  if (phase.seconds_left > 0) text += `, ${formatSeconds(phase.seconds_left)} left`;
  return text;
}

// placeText says where a video waits.
export function placeText(video) {
  if (video.state === "paused") return "Paused: it is not made until it is resumed";
  if (!video.queue) return "Waits";
  const { place, wait_seconds: wait } = video.queue;
  const at = place === 1 ? "Next" : `Place ${place}`;
  return wait > 0 ? `${at}, begins in about ${formatSeconds(wait)}` : at;
}

export const shorten = (text, most = 60) =>
  [...text].length > most ? [...text].slice(0, most).join("") + "…" : text;
