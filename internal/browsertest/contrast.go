package browsertest

// contrast holds every text against what lies behind it, painted to a canvas so that any colour
// space becomes sRGB.
const contrast = `(() => {
	const canvas = document.createElement("canvas");
	canvas.width = canvas.height = 1;
	const ink = canvas.getContext("2d", {willReadFrequently: true});
	const rgba = (layers) => { ink.clearRect(0, 0, 1, 1); for (const c of layers) { ink.fillStyle = c; ink.fillRect(0, 0, 1, 1); } return [...ink.getImageData(0, 0, 1, 1).data]; };
	const light = ([r, g, b]) => [r, g, b].map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }).reduce((n, v, i) => n + v * [0.2126, 0.7152, 0.0722][i], 0);
	const out = new Set();
	for (const node of document.querySelectorAll("body *")) {
		if (!node.checkVisibility() || ![...node.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim())) continue;
		if (["TITLE", "OPTION", "SCRIPT"].includes(node.tagName.toUpperCase())) continue;
		const layers = [];
		const inDrawing = node.closest("svg");
		if (inDrawing) layers.push(getComputedStyle(node.parentElement.querySelector(":scope > rect") ?? node).fill);
		for (let x = inDrawing ? inDrawing.parentElement : node; x; x = x.parentElement) layers.push(getComputedStyle(x).backgroundColor);
		if (inDrawing && !node.parentElement.querySelector(":scope > rect")) layers.shift();
		const back = layers.reverse();
		const colour = inDrawing ? getComputedStyle(node).fill : getComputedStyle(node).color;
		const [a, b] = [light(rgba(back)), light(rgba([...back, colour]))];
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) out.add(node.tagName + "." + (node.getAttribute("class") ?? "") + " " + ratio.toFixed(2) + " " + node.textContent.trim().slice(0, 20));
	}
	return [...out];
})()`
