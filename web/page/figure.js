// A number that can be asked what made it.

import { el } from "./dom.js";

// figure is a number whose click asks on.explain what made it; without on it is plain text. name
// is the figure's, as weft plan --explain takes it.
export function figure(name, label, text, on) {
  if (!on) return text;
  return el("button", {
    type: "button",
    class: "figure",
    "aria-label": `${label}, ${text}: what made it`,
    title: "What made it",
    data: { figure: name },
    text,
    on: { click: () => on.explain(name) },
  });
}
