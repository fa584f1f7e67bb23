// Elements, numbers as text, and what is shown beside the pointer or the focus. What a recording
// says only ever becomes text of a node or the value of an attribute that is no code.
const SVG = 'http://www.w3.org/2000/svg';
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'style') for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const count = (number) => Math.round(number).toLocaleString('en-US');
const counted = (number, one, many) => `${count(number)} ${number === 1 ? one : many}`;
const figures = (number) => number >= 100 ? number.toFixed(0) : number >= 10 ? number.toFixed(1) : number.toFixed(2);
function seconds(value) {
  if (value === 0) return '0 s';
  const [scale, unit] = value >= 0.9995 ? [1, 's'] : value >= 0.0009995 ? [1e3, 'ms'] : [1e6, 'µs'];
  if (value >= 1000) return `${count(value)} s`;
  return `${unit === 's' ? figures(value) : Number((value * scale).toPrecision(3))} ${unit}`;
}
function bytes(value) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (value >= 999.5 && unit < 4) { value /= 1000; unit++; }
  return `${Number(value.toPrecision(3))} ${units[unit]}`;
}
const percent = (part, whole) => whole ? `${Math.round(part / whole * 100)} %` : '0 %';
const color = (cause) => `var(--c${cause})`;
const clipped = (text, letters) => text.length <= letters ? text : letters < 5 ? text.slice(0, Math.max(letters, 0))
  : `${text.slice(0, Math.ceil(letters / 2) - 1)}…${text.slice(text.length - Math.floor(letters / 2))}`;
const lastPart = (path) => path.slice(path.lastIndexOf('/') + 1) || path;

const tip = document.getElementById('tip');
function showTip(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 4))}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 12) : y + 18}px`;
}
const hideTip = () => { tip.hidden = true; };
document.addEventListener('pointermove', (event) => {
  const node = event.target.closest('[data-tip]');
  if (node) showTip(node.dataset.tip, event.clientX, event.clientY);
  else if (!event.target.closest('[data-own-tip]')) hideTip();
});
document.addEventListener('focusin', (event) => {
  const node = event.target.closest('[data-tip]');
  if (!node || !node.matches(':focus-visible')) return hideTip();
  const box = node.getBoundingClientRect();
  showTip(node.dataset.tip, box.left + Math.min(box.width / 2, 60), box.top + Math.min(box.height, 60));
});
document.addEventListener('keydown', (event) => { if (event.key === 'Escape') hideTip(); });
document.addEventListener('scroll', hideTip, true);

const figure = (value, label) => el('div', { class: 'figure' }, el('b', null, value), el('span', null, label));
function section(id, title, about, ...children) {
  return el('section', { id, 'aria-labelledby': `${id}-title` }, el('h2', { id: `${id}-title` }, title),
    about && el('p', { class: 'quiet small' }, about), children);
}
// Which colour is which cause; those that are there.
function legend(data, numbers, hasFailed) {
  const item = (cause) => el('li', null, el('span', { class: 'swatch', style: { background: color(cause) } }), data.causes[cause]);
  const hatch = hasFailed && el('li', null, el('span', { class: 'swatch hatched', style: { 'background-color': 'var(--c7)' } }), 'failed lookups');
  return el('ul', { class: 'legend', 'aria-label': 'Colours' }, numbers.map(item), hatch);
}
const causesWith = (start, metric) => start.causes.map((_, cause) => cause).filter((cause) => start.causes[cause][metric] > 0);
function choice(label, options, chosen, choose) {
  const buttons = options.map(([name, text]) => el('button', { type: 'button', 'aria-pressed': String(name === chosen), onclick: () => {
    buttons.forEach((button, at) => button.setAttribute('aria-pressed', String(options[at][0] === name)));
    choose(name);
  } }, text));
  return el('div', { class: 'controls', role: 'group', 'aria-label': label }, buttons);
}
// Draws where a node has its place, and again where there is another width.
const undrawn = [];
function drawnTo(node, draw) {
  let width = 0;
  const fit = () => {
    if (node.clientWidth && node.clientWidth !== width) { width = node.clientWidth; draw(width); }
  };
  undrawn.push(fit);
  new ResizeObserver(() => requestAnimationFrame(fit)).observe(node);
}
const drawPlaced = () => undrawn.splice(0).forEach((fit) => fit());
