// The ranks of a job as a map: a line is a node, a cell a rank, its colour how much.
function ranksView(map) {
  const METRICS = [['took_ns', 'to its end', (value) => seconds(value / 1e9)], ['metadata_ns', 'in metadata operations', (value) => seconds(value / 1e9)],
    ['ops', 'metadata operations', count], ['failed', 'failed lookups', count]];
  let [metric, , text] = METRICS[0];
  const frame = el('div', { class: 'map' }), scale = el('p', { class: 'small quiet' });
  const nodes = [...new Set(map.ranks.map((rank) => rank.node))];
  const widest = Math.max(...nodes.map((name) => map.ranks.filter((rank) => rank.node === name).length), 1);
  const about = (rank) => `rank ${rank.rank}${map.together > 1 ? ` (the slowest of up to ${map.together})` : ''} on ${rank.node}${rank.end ? `: ${rank.end}` : ''}\n${METRICS.map(([name, label, shown]) => `${label}: ${shown(rank[name])}`).join('\n')}`;
  function draw(width) {
    const labels = width < 560 ? 84 : 150, size = Math.max(9, Math.min(15, Math.floor((width - labels) / widest))), across = Math.max(1, Math.floor((width - labels) / size));
    const values = map.ranks.map((rank) => rank[metric]), low = Math.min(...values), high = Math.max(...values);
    const part = (value) => high > low ? (value - low) / (high - low) : 0;
    const cells = [];
    let y = 0;
    const order = [];
    for (const name of nodes) {
      const own = map.ranks.filter((rank) => rank.node === name);
      cells.push(svg('text', { x: 0, y: y + 11.5 }, clipped(name, Math.floor((labels - 8) / 6.4))));
      own.forEach((rank, at) => {
        const x = labels + at % across * size, top = y + Math.floor(at / across) * size, number = order.length;
        const cell = svg('rect', { class: 'cell', x, y: top, width: size - 2, height: size - 2, rx: 2, role: 'img', tabindex: number === 0 ? 0 : -1, 'aria-label': about(rank), 'data-tip': about(rank),
          style: rank.end ? { fill: 'none', stroke: 'var(--slow)', 'stroke-width': '2' } : { fill: `color-mix(in oklab, var(--c0) ${Math.round(12 + 88 * part(rank[metric]))}%, var(--raised))`, stroke: 'var(--line)' },
          onkeydown: (event) => {
            const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across, Home: -number, End: order.length - 1 - number }[event.key];
            const next = by !== undefined && order[Math.min(Math.max(number + by, 0), order.length - 1)];
            if (!next) return;
            event.preventDefault();
            cell.setAttribute('tabindex', -1);
            next.setAttribute('tabindex', 0);
            next.focus();
          } });
        order.push(cell);
        cells.push(cell);
      });
      y += Math.ceil(own.length / across) * size + 3;
    }
    frame.replaceChildren(svg('svg', { width, height: y, viewBox: `0 0 ${width} ${y}`, role: 'group', 'aria-label': 'Ranks by node' }, cells));
    scale.textContent = `From ${text(low)} (light) to ${text(high)} (full colour). A red frame: cut, failed or killed.`;
    Object.assign(node.dataset, { metric, low: String(low), high: String(high) });
  }
  const choose = (name) => { [metric, , text] = METRICS.find(([known]) => known === name); draw(frame.clientWidth); };
  const slowest = map.ranks.slice().sort((a, b) => b.took_ns - a.took_ns).slice(0, 12);
  const node = section('ranks', 'The ranks', 'Each line is a node, each cell a rank. Arrow keys go from cell to cell.', choice('What colours show', METRICS, metric, choose), frame, scale,
    el('h3', null, 'The slowest'), tableOf(['node', '#rank', '#to its end', '#in metadata', '#ops', '#failed', ''], slowest.map((rank) => [rank.node, String(rank.rank), seconds(rank.took_ns / 1e9), seconds(rank.metadata_ns / 1e9), count(rank.ops), count(rank.failed), rank.end])));
  Object.assign(node.dataset, { cells: String(map.ranks.length), nodes: String(nodes.length), ops: String(map.ranks.reduce((all, rank) => all + rank.ops, 0)) });
  drawnTo(frame, draw);
  return [el('header', null, el('div', { class: 'verdict undecided' }, 'RANKS'), el('h1', null, map.headline), el('code', { class: 'command' }, map.command), el('p', { class: 'quiet small' }, map.run)),
    map.warnings.map((warning) => el('p', { class: 'warning' }, warning)), node];
}
