// The form: a field for each setting that the model takes, with its own defaults and legal values.

import { el, put } from "./dom.js";
import { formatValue } from "./format.js";

// Fields that the form has not: the service has one model, and the frames say how long a video is.
const left = ["model", "image_reference", "seconds", "user"];
const first = [
  "size",
  "num_frames",
  "num_inference_steps",
  "guidance_scale",
  "guidance_scale_2",
  "seed",
];
const names = {
  prompt: "Prompt",
  negative_prompt: "Negative prompt",
  size: "Size",
  num_frames: "Frames",
  num_inference_steps: "Steps",
  guidance_scale: "Guidance",
  guidance_scale_2: "Guidance of the second expert",
  fps: "Frames a second",
  seed: "Seed",
  flow_shift: "Shift",
  cfg: "CFG",
  input_reference: "First picture",
  last_image_reference: "Last picture",
  vae_dtype: "Type of the autoencoder",
  output_format: "Format",
};
// The settings that defaults are listed by, where they have another name than the flag.
const settingOf = {
  negative: "negative_prompt",
  "integer-timesteps": "integer_timesteps",
  "text-len": "text_len",
};

const nameOf = (field) =>
  names[field] ?? (field[0].toUpperCase() + field.slice(1)).replaceAll("_", " ");

let model, form;
const inputs = new Map(); // field -> its control
const pictures = new Map(); // field -> a File

// build makes the form for a model. mayHurry says whether a high priority may be asked for.
export function build(node, description, mayHurry) {
  [form, model] = [node, description];
  inputs.clear();
  pictures.clear();
  const fields = model.fields.filter((f) => !left.includes(f.name));
  const make = (f) => makeField(f, mayHurry);
  const texts = fields.filter((f) => ["prompt", "negative_prompt"].includes(f.name));
  const images = fields.filter((f) => f.kind === "image");
  const usual = first.map((name) => fields.find((f) => f.name === name)).filter(Boolean);
  const rest = fields.filter((f) => ![...texts, ...images, ...usual].includes(f));
  put(
    form,
    texts.map(make),
    images.map(makeDrop),
    el("div", { class: "settings" }, usual.map(make)),
    el(
      "details",
      { class: "more" },
      el("summary", { text: "More settings" }),
      el("div", { class: "settings" }, rest.map(make)),
    ),
    el("p", { id: "refusals", class: "field-error", role: "alert" }),
    el("div", {
      id: "plan",
      class: "plan",
      role: "status",
      "aria-live": "polite",
      "aria-atomic": "true",
    }),
    el(
      "div",
      { class: "actions" },
      el("button", { class: "primary", type: "submit", text: "Make the video" }),
      el("button", { type: "reset", class: "quiet", text: "Clear" }),
    ),
  );
}

function defaultOf(field) {
  if (field.name === "output_format")
    return { value: model.output_formats[0], from: "the first that can be written here" };
  if (field.name === "priority") return { value: "normal", from: "the service" };
  const said = model.defaults[settingOf[field.flag] ?? field.flag] ?? model.defaults[field.name];
  if (!said) return undefined;
  const at = field.name === "guidance_scale" ? 0 : field.name === "guidance_scale_2" ? 1 : -1;
  return at >= 0 && Array.isArray(said.value) ? { ...said, value: said.value[at] } : said;
}

function makeField(field, mayHurry) {
  const id = "f-" + field.name;
  const normal = defaultOf(field);
  const shown = normal ? formatValue(normal.value) : field.name === "seed" ? "drawn" : "";
  const attrs = { id, name: field.name, "aria-describedby": id + "-help " + id + "-error" };
  const control = makeControl(field, attrs, shown, mayHurry);
  inputs.set(field.name, control);
  const help =
    legalText(field) + field.help + (normal ? ` Default: ${shown}, from ${normal.from}.` : "");
  return el(
    "div",
    { class: "field field-" + field.name },
    el("label", { for: id, text: nameOf(field.name), title: help }),
    control,
    el("p", { id: id + "-help", class: "visually-hidden", text: help }),
    el("p", { id: id + "-error", class: "field-error" }),
  );
}

// legalText says which values the model takes.
function legalText(field) {
  if (field.name === "size") return `Multiples of ${model.width_step} by ${model.height_step}. `;
  if (field.name === "num_frames") return `Such as ${model.frame_counts.slice(0, 4).join(", ")}. `;
  return "";
}

function makeControl(field, attrs, shown, mayHurry) {
  if (field.name === "prompt" || field.name === "negative_prompt")
    return el("textarea", {
      ...attrs,
      rows: field.name === "prompt" ? 4 : 2,
      placeholder: shown,
      required: field.name === "prompt",
    });
  const words = field.name === "output_format" ? model.output_formats : field.values;
  if (words || field.kind === "boolean") {
    const legal = (words ?? ["true", "false"]).filter(
      (w) => mayHurry || field.name !== "priority" || w !== "high",
    );
    const usual = shown ? `Default (${shown})` : "Default";
    return el(
      "select",
      attrs,
      el("option", { value: "", text: usual }),
      legal.map((w) => el("option", { value: w, text: w })),
    );
  }
  if (field.name === "num_frames") {
    const [least = 1, second = least + 1] = model.frame_counts;
    return el("input", {
      ...attrs,
      type: "number",
      min: least,
      step: second - least,
      placeholder: shown,
    });
  }
  if (field.kind === "number")
    return el("input", { ...attrs, type: "number", step: "any", placeholder: shown });
  // A seed may have 64 bits, of which an input for numbers loses the last digits.
  const inputmode = field.kind === "integer" ? "numeric" : "text";
  return el("input", {
    ...attrs,
    type: "text",
    inputmode,
    placeholder: shown,
    spellcheck: "false",
  });
}

// makeDrop makes a place for a picture: a file that is chosen, dropped or pasted.
function makeDrop(field) {
  const id = "f-" + field.name;
  const needed = field.name === "input_reference" && model.image === "needed";
  const file = el("input", {
    id,
    type: "file",
    accept: "image/png,image/jpeg,image/webp",
    "aria-describedby": id + "-help " + id + "-error",
  });
  const show = el("img", { class: "picked", alt: "The picture that was chosen", hidden: true });
  const remove = el("button", {
    type: "button",
    class: "quiet",
    hidden: true,
    text: "Remove",
    "aria-label": "Remove the picture",
  });
  const zone = el(
    "div",
    { class: "field drop", data: { field: field.name } },
    el("label", { for: id, text: nameOf(field.name) + (needed ? " (needed)" : "") }),
    file,
    show,
    remove,
    el("p", {
      id: id + "-help",
      class: "quiet-text",
      text: "Choose, drop or paste a PNG, JPEG or WebP.",
    }),
    el("p", { id: id + "-error", class: "field-error" }),
  );
  inputs.set(field.name, file);
  const take = (picture) => {
    if (show.src) URL.revokeObjectURL(show.src);
    picture ? pictures.set(field.name, picture) : pictures.delete(field.name);
    show.hidden = remove.hidden = !picture;
    if (picture) show.src = URL.createObjectURL(picture);
    else {
      show.removeAttribute("src");
      file.value = "";
    }
    form.dispatchEvent(new Event("input", { bubbles: true }));
  };
  zone.takePicture = take;
  file.addEventListener("change", (event) => {
    event.stopPropagation();
    if (file.files[0]) take(file.files[0]);
  });
  remove.addEventListener("click", () => {
    take(undefined);
    file.focus();
  });
  return zone;
}

const zones = () => [...form.querySelectorAll(".drop")];
const isPicture = (file) => file.type.startsWith("image/");

// takePictures lets pictures be dropped on the form and pasted.
export function takePictures(onRefused) {
  const give = (file, zone) => {
    zone = zone ?? zones().find((z) => !pictures.has(z.dataset.field)) ?? zones()[0];
    if (!zone) onRefused("This model takes no picture.");
    else if (!isPicture(file))
      onRefused(`${file.name} is no picture: PNG, JPEG or WebP is wanted.`);
    else zone.takePicture(file);
  };
  for (const kind of ["dragover", "dragleave", "drop"])
    document.addEventListener(kind, (event) => {
      if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
      event.preventDefault(); // else the browser would open the file in place of the page
      form.classList.toggle("dropping", kind === "dragover");
      if (kind === "drop" && event.dataTransfer.files[0])
        give(event.dataTransfer.files[0], event.target.closest?.(".drop"));
    });
  document.addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])].find(isPicture);
    if (!file) return;
    event.preventDefault();
    give(file);
  });
  form.addEventListener("reset", () => zones().forEach((z) => z.takePicture(undefined)));
}

// values are the fields that are not left to the model.
export function values() {
  const out = {};
  for (const [name, control] of inputs)
    if (control.type !== "file" && control.value.trim() !== "") out[name] = control.value.trim();
  return out;
}

export const picturesOf = () => new Map(pictures);

// fill puts the fields of a request into the form, and leaves the others to the model.
export function fill(fields, files = new Map()) {
  for (const [name, control] of inputs)
    if (control.type !== "file") control.value = fields[name] ?? "";
  for (const zone of zones()) zone.takePicture(files.get(zone.dataset.field));
  if (Object.keys(fields).some((name) => !["prompt", "negative_prompt", ...first].includes(name)))
    form.querySelector(".more").open = true;
}

// body is a request as a form is sent.
export function body(fields, files) {
  const data = new FormData();
  for (const [name, value] of Object.entries(fields)) data.append(name, value);
  for (const [name, file] of files) data.append(name, file, "picture");
  return data;
}

// showRefusals puts each violation beside its field, or below all.
export function showRefusals(violations) {
  const rest = [];
  const byField = new Map();
  for (const v of violations) {
    if (inputs.has(v.param)) byField.set(v.param, [...(byField.get(v.param) ?? []), v.message]);
    else rest.push(v.message);
  }
  for (const [name, control] of inputs) {
    const said = byField.get(name);
    said ? control.setAttribute("aria-invalid", "true") : control.removeAttribute("aria-invalid");
    form.querySelector(`#f-${name}-error`).textContent = said?.join(" ") ?? "";
    if (said && control.closest(".more")) form.querySelector(".more").open = true;
  }
  form.querySelector("#refusals").textContent = rest.join(" ");
}

export const focusPrompt = () => inputs.get("prompt").focus();
