// Errors are shown whatever else fails: this script runs before every module, and
// also hears of modules that cannot be loaded.
"use strict";

window.weftBanner = {
  // show puts a message at the top of the page; again, if given, is called by a button.
  show(title, lines, again) {
    const banner = document.getElementById("banner");
    if (!banner) {
      document.addEventListener(
        "DOMContentLoaded",
        () => window.weftBanner.show(title, lines, again),
        { once: true },
      );
      return;
    }
    banner.replaceChildren();
    const head = document.createElement("strong");
    head.textContent = title;
    banner.append(head);
    for (const line of lines) {
      const p = document.createElement("p");
      p.textContent = line;
      banner.append(p);
    }
    const button = (text, act) => {
      const b = document.createElement("button");
      b.type = "button";
      b.textContent = text;
      b.addEventListener("click", () => {
        window.weftBanner.hide();
        act();
      });
      banner.append(b);
    };
    if (again) button("Try again", again);
    button("Dismiss", () => {});
    banner.hidden = false;
  },
  hide() {
    const banner = document.getElementById("banner");
    if (banner) banner.hidden = true;
  },
};

window.addEventListener(
  "error",
  (event) => {
    const from = event.target;
    if (from && from !== window && (from.src || from.href)) {
      window.weftBanner.show(
        "A part of the page could not be loaded",
        [String(from.src || from.href)],
        () => location.reload(),
      );
      return;
    }
    window.weftBanner.show(
      "The page has a fault",
      [event.message + " (" + (event.filename || "").split("/").pop() + ":" + event.lineno + ")"],
      () => location.reload(),
    );
  },
  true,
);

window.addEventListener("unhandledrejection", (event) => {
  const reason = event.reason;
  window.weftBanner.show(
    "The page has a fault",
    [String((reason && reason.message) || reason)],
    () => location.reload(),
  );
});
