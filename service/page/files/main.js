// The page: joins the form, the queue and the gallery to what is known of the videos.

import { get, post, randomKey, Refusal } from "./api.js";
import { fail, say } from "./cards.js";
import { byId } from "./dom.js";
import * as form from "./form.js";
import { shorten, stateName } from "./format.js";
import * as gallery from "./gallery.js";
import { planSoon } from "./plan.js";
import * as queue from "./queue.js";
import * as session from "./session.js";
import * as stream from "./stream.js";
import * as videos from "./videos.js";

const node = byId("ask");
const draftName = "weft draft"; // of the session's storage: a reload keeps what was typed
const sent = new Map(); // id -> the pictures that this tab sent, which the service does not give back
let key; // of the request in the form, so that a retry is the same request

async function begin() {
  const who = await session.start(() => stream.restart());
  const [model] = (await get("/v1/models")).data;
  byId("model").textContent = "Videos by " + model.id;
  byId("explorer").hidden = !model.explorer;
  if (model.explorer) byId("explorer").href = model.explorer;
  byId("logout").hidden = !who.tokens;
  form.build(node, model, who.operator || !who.tokens);
  form.takePictures((why) => form.showRefusals([{ message: why }]));
  form.fill(readDraft());
  node.addEventListener("input", changed);
  node.addEventListener("change", changed);
  node.addEventListener("reset", () => setTimeout(changed)); // after the fields are empty
  node.addEventListener("submit", submit);
  node.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) node.requestSubmit();
  });
  gallery.start(repeat);
  queue.follow(who.operator || !who.tokens);
  videos.watch(show);
  stream.follow(showConnection, queue.showQueue);
  planSoon();
}

function readDraft() {
  try {
    return JSON.parse(sessionStorage.getItem(draftName) ?? "{}");
  } catch {
    return {}; // storage may be forbidden
  }
}

function changed() {
  key = undefined;
  try {
    sessionStorage.setItem(draftName, JSON.stringify(form.values()));
  } catch {
    // The draft lasts as long as the page then.
  }
  planSoon();
}

function showConnection(state) {
  const text = { open: "Live", known: "Live", lost: "Connection lost; trying again" }[state];
  if (byId("connection").textContent !== text) byId("connection").textContent = text;
  byId("connection").dataset.state = state;
  if (state === "known") byId("main").setAttribute("aria-busy", "false");
}

// show draws what changed, and says which videos are in another state.
function show(changes) {
  queue.draw();
  gallery.draw();
  const news = [];
  for (const [id, before] of changes) {
    const video = videos.find(id);
    if (video && before && before.state !== video.state)
      news.push(`${stateName(video)}: ${shorten(video.prompt, 40)}`);
  }
  if (news.length) say(news.join(". "));
}

async function submit(event) {
  event.preventDefault();
  const fields = form.values();
  if (!fields.prompt) {
    form.showRefusals([{ param: "prompt", message: "Say what the video shows." }]);
    form.focusPrompt();
    return;
  }
  const button = node.querySelector("[type=submit]");
  button.disabled = true;
  key = key ?? randomKey();
  const mine = key;
  try {
    await create(fields, form.picturesOf(), mine);
    form.showRefusals([]);
    if (key === mine) key = undefined;
  } catch (error) {
    if (error instanceof Refusal && error.violations.some((v) => v.param))
      form.showRefusals(error.violations);
    else fail("The video was not taken", error, () => node.requestSubmit());
    if (error.status && key === mine) key = undefined; // it was answered: the next is another request
  } finally {
    button.disabled = false;
  }
}

// create asks for a video.
async function create(fields, pictures, idempotencyKey = randomKey()) {
  const video = await post("/v1/videos", {
    body: form.body(fields, pictures),
    headers: { "Idempotency-Key": idempotencyKey },
  });
  if (pictures.size) sent.set(video.id, pictures);
  videos.put(video, true);
  stream.syncSoon();
  say("The video was taken: " + shorten(video.prompt, 40));
}

// repeat makes a video again: with its seed, with another, or after the user changed something.
async function repeat(video, { seed, edit }) {
  const fields = { ...video.request };
  if (seed) delete fields.seed;
  const pictures = sent.get(video.id) ?? new Map();
  const isMissing = video.has_input_reference && !pictures.size;
  if (!edit && !isMissing) return create(fields, pictures);
  form.fill(fields, pictures);
  changed();
  form.focusPrompt();
  if (isMissing)
    form.showRefusals([
      {
        param: "input_reference",
        message: "Add the picture again: the service does not give it back.",
      },
    ]);
}

begin().catch((error) => {
  if (!(error instanceof Refusal)) throw error; // boot.js shows it
  fail("The page cannot begin", error, () => location.reload());
});
