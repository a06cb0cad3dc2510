// Elements from JavaScript, without text ever being read as HTML.

const svgNS = "http://www.w3.org/2000/svg";

function fill(node, attrs, children) {
  for (const [name, value] of Object.entries(attrs || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name === "style")
      for (const [k, v] of Object.entries(value)) node.style.setProperty(k, v);
    else if (name === "on")
      for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else if (name === "data") Object.assign(node.dataset, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(
    ...children.flat(Infinity).filter((c) => c !== undefined && c !== null && c !== false),
  );
  return node;
}

// el makes an HTML element: el("p", {class: "note", text: "..."}), or with children.
export const el = (name, attrs, ...children) => fill(document.createElement(name), attrs, children);

// svg makes an SVG element.
export const svg = (name, attrs, ...children) =>
  fill(document.createElementNS(svgNS, name), attrs, children);

export const byId = (id) => document.getElementById(id);

// put replaces a node's children.
export function put(node, ...children) {
  node.replaceChildren(
    ...children.flat(Infinity).filter((c) => c !== undefined && c !== null && c !== false),
  );
  return node;
}
