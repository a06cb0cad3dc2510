// The videos that ended: each with its picture, its exact settings, and what may be done with it.

import { contentPath } from "./api.js";
import { action, arrange, deletion } from "./cards.js";
import { byId, el, put } from "./dom.js";
import { formatTime, formatValue, shorten, stateName } from "./format.js";
import * as videos from "./videos.js";

const items = new Map();
const atOnce = 24;
let most = atOnce;
let repeat = async () => {}; // makes a video again: (video, {seed, edit})

const hasEnded = (v) => ["completed", "failed", "cancelled"].includes(v.state);
const byAge = (a, b) => b.created_at - a.created_at || (a.id < b.id ? 1 : -1);

// start is told how a video is made again.
export function start(again) {
  repeat = again;
  byId("more").addEventListener("click", () => {
    most += atOnce;
    draw();
  });
}

export function draw() {
  const ended = videos.all().filter(hasEnded).sort(byAge);
  byId("ended-none").hidden = ended.length > 0;
  byId("more").hidden = ended.length <= most;
  arrange(byId("ended"), items, ended.slice(0, most), make, () => {});
}

// A video that ended does not change any more: it is drawn once.
function make(video) {
  const name = shorten(video.prompt, 40);
  const done = video.state === "completed";
  return el(
    "li",
    { class: "made", data: { id: video.id, state: video.state } },
    done ? el("div", { class: "screen" }, screen(video)) : failure(video),
    el("p", { class: "prompt", text: shorten(video.prompt, 200), title: video.prompt }),
    el("p", {
      class: "quiet-text",
      text: [
        stateName(video),
        video.size,
        `${video.num_frames} frames`,
        `${video.seconds} s`,
        `seed ${video.seed}`,
      ].join(" · "),
    }),
    el(
      "div",
      { class: "actions" },
      done &&
        el("a", {
          class: "button",
          href: contentPath(video.id, "video"),
          download: `${video.id}.${video.output_format}`,
          text: "Download",
          "aria-label": "Download " + name,
        }),
      action("Again", "Make again: " + name, () => repeat(video, {})),
      action("With another seed", "Make with another seed: " + name, () =>
        repeat(video, { seed: true }),
      ),
      action("Edit", "Put into the form: " + name, () => repeat(video, { edit: true })),
      deletion(video.id, "Delete " + name),
    ),
    settings(video),
  );
}

const failure = (video) =>
  el("p", {
    class: video.state === "failed" ? "field-error" : "quiet-text",
    text:
      video.state === "cancelled"
        ? "A user ended it."
        : `${video.error?.message ?? "It failed"} (${video.error?.code ?? "unknown"})`,
  });

const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// screen shows the video, or its frames where a browser does not play its format.
function screen(video) {
  const at = (variant) =>
    video.content.includes(variant) ? contentPath(video.id, variant) : undefined;
  const label = "Video: " + shorten(video.prompt, 120);
  if (video.output_format === "avi")
    return sheet(
      video,
      at,
      "Browsers do not play AVI: these are its frames. Download it for a player.",
    );
  if (video.output_format === "png") {
    // An animated PNG has no controls: it moves when that is asked for, where motion is not liked.
    const moving = el("img", {
      src: calm() ? at("thumbnail") : at("video"),
      alt: label,
      loading: "lazy",
    });
    const play =
      calm() &&
      action("Play", "Play " + label, async (button) => {
        moving.src = at("video");
        button.hidden = true;
      });
    return [moving, play];
  }
  const player = el("video", {
    src: at("video"),
    poster: at("thumbnail"),
    controls: true,
    loop: true,
    playsinline: true,
    preload: "none",
    "aria-label": label,
  });
  player.muted = true;
  player.addEventListener("error", () =>
    put(
      player.parentNode,
      sheet(
        video,
        at,
        `This browser does not play this ${video.output_format.toUpperCase()}: these are its frames.`,
      ),
    ),
  );
  return player;
}

function sheet(video, at, why) {
  const frames = at("spritesheet") ?? at("thumbnail");
  return [
    frames &&
      el("img", {
        class: "sheet",
        src: frames,
        alt: "Frames of the video: " + shorten(video.prompt, 120),
        loading: "lazy",
      }),
    el("p", { class: "quiet-text", text: why }),
  ];
}

// settings has all that was taken, each with its source.
function settings(video) {
  const rows = Object.entries(video.settings).map(([name, s]) =>
    row(name, formatValue(s.value), s.from),
  );
  const more = [
    ["model", video.model],
    ["format", video.output_format],
    ["created", formatTime(video.created_at)],
  ];
  if (video.completed_at) more.push(["completed", formatTime(video.completed_at)]);
  if (video.expires_at) more.push(["removed", formatTime(video.expires_at)]);
  if (video.has_input_reference) more.push(["picture", "one was given"]);
  if (video.tries > 1) more.push(["tries", String(video.tries)]);
  more.push(["id", video.id]);
  return el(
    "details",
    {},
    el("summary", { text: "Exact settings" }),
    el("p", { class: "whole", text: video.prompt }),
    el(
      "dl",
      { class: "exact" },
      rows,
      more.map(([name, value]) => row(name, value)),
    ),
    video.notes.map((n) => el("p", { class: "quiet-text", text: n })),
  );
}

const row = (name, value, from) => [
  el("dt", { text: name.replaceAll("_", " ") }),
  el("dd", {}, el("span", { text: value }), from && el("small", { text: from })),
];
