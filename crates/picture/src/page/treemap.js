// Directories as areas: metadata operations, failed lookups or the wait below each.
const METRICS = [['ops', 'metadata operations'], ['failed', 'failed lookups'], ['wait', 'wait of 1 rank']];
// Rows of a tree as linked nodes.
function grown(rows) {
  const nodes = rows.map(([above, name, ops, failed, wait, cause]) => ({ above, name, ops, failed, wait, cause, below: [] }));
  nodes.forEach((node) => { node.above = nodes[node.above] || null; if (node.above) node.above.below.push(node); });
  return nodes[0];
}
// Squarified treemaps (Bruls, Huizing and van Wijk, 2000): areas as square as can be.
function squarified(items, x, y, width, height) {
  const placed = [];
  let rest = items.slice().sort((a, b) => b.size - a.size), left = rest.reduce((all, one) => all + one.size, 0);
  while (rest.length > 0 && left > 0 && width > 0.5 && height > 0.5) {
    const short = Math.min(width, height), scale = width * height / left;
    let taken = 0, sum = 0, worst = Infinity;
    while (taken < rest.length) {
      const next = sum + rest[taken].size, side = next * scale / short;
      const shape = Math.max(...[rest[0], rest[taken]].map((one) => { const long = one.size * scale / side; return Math.max(long / side, side / long); }));
      if (shape > worst) break;
      worst = shape;
      sum = next;
      taken++;
    }
    const side = sum * scale / short;
    let at = 0;
    for (const one of rest.slice(0, taken)) {
      const long = one.size * scale / side;
      placed.push(width >= height ? { ...one, x, y: y + at, width: side, height: long } : { ...one, x: x + at, y, width: long, height: side });
      at += long;
    }
    if (width >= height) { x += side; width -= side; } else { y += side; height -= side; }
    rest = rest.slice(taken);
    left -= sum;
  }
  return placed;
}
function treemapView(data, start) {
  const root = grown(start.directories);
  const path = (node) => { const parts = []; for (let at = node; at.above; at = at.above) parts.unshift(at.name); return `/${parts.join('/')}`; };
  // A directory that holds one directory and nothing else is passed through.
  const through = (node, metric) => { while (node.below.length === 1 && node.below[0][metric] === node[metric]) node = node.below[0]; return node; };
  let metric = 'ops', current = through(root, metric), focused = null;
  const frame = el('div', { class: 'map' }), crumbs = el('nav', { class: 'crumbs', 'aria-label': 'Directories above' });
  const value = (node) => metric === 'wait' ? seconds(node.wait) : count(node[metric]);
  const about = (node) => `${node.path || path(node)}\n${counted(node.ops, 'metadata operation', 'metadata operations')}, ${count(node.failed)} failed (${percent(node.failed, node.ops)})\n1 rank waits ${seconds(node.wait)}\nmost: ${data.causes[node.cause]}`;
  const go = (node) => { current = through(node, metric); focused = true; draw(frame.clientWidth); };
  const MOST = 60;
  const itemsOf = (node) => {
    const size = (one) => ({ node: one, size: one[metric] });
    const below = node.below.filter((one) => one[metric] > 0).sort((a, b) => b[metric] - a[metric]);
    const items = below.slice(0, MOST).map(size), rest = { ops: node.ops, failed: node.failed, wait: node.wait };
    items.forEach(({ node: one }) => { rest.ops -= one.ops; rest.failed -= one.failed; rest.wait = Math.max(0, rest.wait - one.wait); });
    if (rest[metric] > (metric === 'wait' ? 1e-6 : 0)) {
      items.push(size({ ...rest, cause: node.cause, name: items.length ? 'names here' : lastPart(path(node)), path: `${path(node)}: names in it, and small directories`, below: [], isRest: true }));
    }
    return items;
  };
  const label = (node, x, y, width, height, fill) => width > 40 && height > 17 && [
    svg('text', { x: x + 5, y: y + 14, style: { fill, stroke: color(node.cause) } }, clipped(node.name, Math.floor((width - 8) / 6.6))),
    height > 32 && width > 44 && svg('text', { x: x + 5, y: y + 28, style: { fill, stroke: color(node.cause) } }, clipped(value(node), Math.floor((width - 8) / 6.6)))];
  const tile = (node, x, y, width, height) => {
    const isOpen = node.below.length > 0, share = node.ops ? node.failed / node.ops : 0;
    const act = () => isOpen && go(node);
    return svg('g', { role: 'button', tabindex: 0, 'aria-label': about(node), 'data-tip': about(node), onclick: act,
      onkeydown: (event) => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); act(); } } },
      svg('rect', { class: 'tile', x, y, width, height, style: { fill: color(node.cause) } }),
      share > 0 && metric !== 'failed' && svg('rect', { x, y: y + height * (1 - share), width, height: height * share, fill: 'url(#hatch)' }),
      label(node, x, y, width, height, `var(--t${node.cause})`));
  };
  function draw(width) {
    const height = Math.min(480, Math.max(260, width * 0.5)), head = 19;
    const boxes = squarified(itemsOf(current), 0, 0, width, height).map(({ node, x, y, width: w, height: h }) => {
      const last = through(node, metric);
      const inside = node.isRest || last.below.length === 0 || w < 90 || h < 60 ? [] : squarified(itemsOf(last), x + 2, y + head, w - 4, h - head - 2);
      if (inside.length < 2) return tile(node, x, y, w, h);
      const names = path(last).slice(current.above ? path(current).length + 1 : 1);
      const open = () => go(node);
      return [svg('g', { role: 'button', tabindex: 0, 'aria-label': about(node), 'data-tip': about(node), onclick: open, onkeydown: (event) => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); open(); } } },
        svg('rect', { class: 'tile box', x, y, width: w, height: h }), svg('text', { x: x + 5, y: y + 14 }, clipped(`${names}  ${value(node)}`, Math.floor((w - 8) / 6.6)))),
        inside.filter((one) => one.width > 2 && one.height > 2).map((one) => tile(one.node, one.x, one.y, one.width, one.height))];
    });
    const hatch = svg('pattern', { id: 'hatch', width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' }, svg('rect', { width: 2, height: 6, style: { fill: 'var(--hatch)' } }));
    frame.replaceChildren(svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': 'Directories by area' }, svg('defs', null, hatch), boxes));
    const above = [];
    for (let at = current; at; at = at.above) above.unshift(at);
    crumbs.replaceChildren(...above.map((node) => el('button', { type: 'button', 'aria-current': node === current ? 'true' : null, onclick: () => { current = node; focused = true; draw(frame.clientWidth); } }, node.above ? `${node.name}/` : '/')));
    Object.assign(node_.dataset, { current: path(current), tiles: String(frame.querySelectorAll('g').length) });
    if (focused) { focused = null; (crumbs.lastElementChild || frame).focus({ preventScroll: true }); }
  }
  const rows = (node, list = []) => { node.below.forEach((one) => rows(one, list)); list.push(node); return list; };
  const worst = () => {
    const own = rows(root).map((node) => ({ node, failed: node.failed - node.below.reduce((all, one) => all + one.failed, 0), ops: node.ops - node.below.reduce((all, one) => all + one.ops, 0) }));
    own.sort((a, b) => b.failed - a.failed || b.ops - a.ops);
    return tableOf(['directory', '#ops in it', '#failed'], own.slice(0, 12).map(({ node, ops, failed }) => [path(node), count(ops), count(failed)]));
  };
  const node_ = section('directories', 'Where: directories', 'Areas are directories, by what was looked up below them; the colour is the cause of most of it. Choose one to go into it.',
    choice('What areas show', METRICS, metric, (name) => { metric = name; draw(frame.clientWidth); }), crumbs, frame, legend(data, causesWith(start, 'ops'), true),
    el('details', null, el('summary', null, 'As a table: the directories with most failed lookups'), worst()));
  node_.dataset.ops = String(root.ops);
  node_.dataset.failed = String(root.failed);
  drawnTo(frame, draw);
  return node_;
}
