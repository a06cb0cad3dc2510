// What the queue and the gallery share: lists whose items are kept, and actions on a video.

import { post, Refusal, request, videoPath } from "./api.js";
import { el } from "./dom.js";
import * as videos from "./videos.js";

// say tells those who do not see the page what happened.
export function say(text) {
  document.getElementById("said").textContent = text;
}

// fail shows a refusal on top of the page.
export function fail(what, error, again) {
  if (!(error instanceof Refusal)) throw error; // boot.js shows it
  if (error.status === 401) return; // a token is asked for
  window.weftBanner.show(
    what,
    error.violations.map((v) => v.message),
    again,
  );
}

// arrange puts the items of some videos into a list in their order. An item that stays is not
// made anew, so that its video plays on and the focus stays; make and update draw one.
export function arrange(list, items, shown, make, update) {
  const wanted = new Set(shown.map((v) => v.id));
  for (const [id, item] of items) {
    if (wanted.has(id)) continue;
    const focused = item.contains(document.activeElement);
    items.delete(id);
    item.remove();
    if (focused) list.closest("section").focus();
  }
  let before = null;
  for (const video of shown.toReversed()) {
    let item = items.get(video.id);
    if (!item) items.set(video.id, (item = make(video)));
    update(item, video);
    if (item.parentNode !== list || item.nextSibling !== before) list.insertBefore(item, before);
    before = item;
  }
}

// action is a button that asks the service for something about a video.
export function action(text, label, act) {
  const button = el("button", { type: "button", class: "quiet", text, "aria-label": label });
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await act(button);
    } catch (error) {
      fail(`${text}: this was refused`, error);
    } finally {
      button.disabled = false;
    }
  });
  return button;
}

// change cancels, pauses or resumes a video.
export const change = (id, what) => async () => {
  videos.put(await post(`${videoPath(id)}/${what}`), false);
};

// deletion is a button that asks once more before it removes a video.
export function deletion(id, label) {
  let timer;
  const button = action("Delete", label, async () => {
    if (!button.classList.contains("sure")) {
      button.classList.add("sure");
      button.textContent = "Delete for good?";
      button.setAttribute("aria-label", label + " for good?");
      timer = setTimeout(forget, 5000);
      return;
    }
    clearTimeout(timer);
    await request("DELETE", videoPath(id));
    videos.remove(id);
    say("The video was deleted.");
  });
  const forget = () => {
    button.classList.remove("sure");
    button.textContent = "Delete";
    button.setAttribute("aria-label", label);
  };
  return button;
}
