// The processes as lanes: when each did what, by cause. It can be moved and magnified.
function timelineView(data, start) {
  const line = start.timeline, lanes = line.rows;
  lanes.forEach((lane) => {
    if (lane.at) return;
    let moment = 0;
    lane.at = [];
    for (let at = 0; at < lane.cells.length; at += 4) {
      moment += lane.cells[at];
      lane.at.push([moment * line.moment_ns, lane.cells[at + 1], lane.cells[at + 2], lane.cells[at + 3]]);
    }
  });
  let from = 0, to = line.duration_ns, picked = -1;
  const frame = el('div', { class: 'lanes' }), told = el('p', { class: 'small', 'aria-live': 'polite' });
  const least = Math.max(line.moment_ns * 4, 1000);
  const go = (a, b) => {
    const span = Math.min(Math.max(b - a, least), line.duration_ns);
    from = Math.min(Math.max(a, 0), line.duration_ns - span);
    to = from + span;
    draw(frame.clientWidth);
  };
  const zoom = (factor, at = (from + to) / 2) => go(at - (at - from) * factor, at + (to - at) * factor);
  const move = (part) => go(from + (to - from) * part, to + (to - from) * part);
  const button = (text, label, act) => el('button', { type: 'button', 'aria-label': label, onclick: act }, text);
  const controls = el('div', { class: 'controls', role: 'group', 'aria-label': 'Timeline' },
    button('−', 'Show a longer time', () => zoom(2)), button('+', 'Magnify', () => zoom(0.5)),
    button('◀', 'Earlier', () => move(-0.4)), button('▶', 'Later', () => move(0.4)), button('Whole start', 'Show the whole start', () => go(0, line.duration_ns)));
  const tellLane = (lane) => `${lane.name}${lane.pid ? ` (PID ${lane.pid})` : ''}: ${counted(lane.ops, 'metadata operation', 'metadata operations')}, ${count(lane.failed)} failed; ${seconds(lane.start_ns / 1e9)} to ${seconds(lane.end_ns / 1e9)}`;
  const tell = () => { told.textContent = picked < 0 ? `Shown: ${seconds(from / 1e9)} to ${seconds(to / 1e9)} of ${seconds(line.duration_ns / 1e9)}` : `${tellLane(lanes[picked])}${lanes[picked].command ? ` · ${lanes[picked].command}` : ''}`; };
  let height = 18, labels = 150, width = 0;
  const shownX = (time) => labels + (time - from) / (to - from) * (width - labels);
  const timeAt = (x) => from + (x - labels) / (width - labels) * (to - from);
  // What a lane did in each so many pixels, by cause.
  const columns = (lane, pixels) => {
    const found = new Map(), step = (to - from) / (width - labels) * pixels;
    for (const [time, cause, ops, failed] of lane.at) {
      if (time + line.moment_ns <= from || time >= to) continue;
      const column = Math.max(0, Math.floor((time - from) / step));
      let cell = found.get(column);
      if (!cell) found.set(column, cell = { ops: 0, failed: 0, causes: new Array(data.causes.length).fill(0) });
      cell.ops += ops;
      cell.failed += failed;
      cell.causes[cause] += ops;
    }
    return found;
  };
  const PIXELS = 3;
  function draw(newWidth) {
    width = Math.max(newWidth, 200);
    labels = width < 560 ? 96 : 190;
    height = Math.min(84, Math.max(18, Math.floor(230 / lanes.length)));
    const top = 20, all = lanes.map((lane) => columns(lane, PIXELS));
    const most = Math.max(...all.map((found) => Math.max(0, ...[...found.values()].map((cell) => cell.ops))), 1);
    const paths = data.causes.map(() => []), wide = Math.max(PIXELS, (line.moment_ns / (to - from)) * (width - labels));
    all.forEach((found, row) => found.forEach((cell, column) => {
      let y = top + (row + 1) * height - 1;
      const tall = Math.max(3, (height - 3) * Math.sqrt(cell.ops / most));
      cell.causes.forEach((ops, cause) => {
        if (ops === 0) return;
        const part = tall * ops / cell.ops;
        y -= part;
        paths[cause].push(`M${(labels + column * PIXELS).toFixed(1)} ${y.toFixed(1)}h${Math.min(wide, width - labels - column * PIXELS).toFixed(1)}v${part.toFixed(1)}h-${Math.min(wide, width - labels - column * PIXELS).toFixed(1)}z`);
      });
    }));
    const ticks = (width < 560 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]).map((part) => svg('text', { class: 'quiet', x: labels + (width - labels) * part, y: 13, 'text-anchor': part === 0 ? 'start' : part === 1 ? 'end' : 'middle' }, seconds((from + (to - from) * part) / 1e9)));
    const lane = (one, row) => {
      const y = top + row * height, a = Math.max(shownX(one.start_ns), labels), b = Math.min(shownX(one.end_ns), width);
      const indent = Math.min(one.depth, 4) * 8;
      return [b > a && svg('rect', { class: 'own', x: a, y: y + 1, width: Math.max(b - a, 1), height: height - 2 }),
        svg('text', { x: 6 + indent, y: y + Math.min(height / 2 + 4, 20) }, clipped(one.name, Math.floor((labels - 12 - indent) / 6.4))),
        row === picked && svg('rect', { class: 'picked', x: 1, y, width: width - 2, height })];
    };
    const tallness = top + lanes.length * height + 2;
    const drawing = svg('svg', { width, height: tallness, viewBox: `0 0 ${width} ${tallness}`, tabindex: 0, role: 'application', 'data-own-tip': true,
      'aria-label': 'Timeline of processes. Left and right move, plus and minus magnify, up and down choose a process, 0 shows the whole start.' },
      ticks, lanes.map(lane), paths.map((path, cause) => path.length > 0 && svg('path', { d: path.join(''), fill: color(cause) })));
    listen(drawing, top, all);
    const had = frame.contains(document.activeElement), scrolled = frame.scrollTop;
    frame.replaceChildren(drawing);
    frame.scrollTop = scrolled;
    if (had) drawing.focus({ preventScroll: true });
    Object.assign(section_.dataset, { from: String(from), to: String(to), lanes: String(lanes.length) });
    tell();
  }
  let dragged = null;
  function listen(drawing, top, all) {
    const inside = (event) => { const box = drawing.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    drawing.addEventListener('pointerdown', (event) => { dragged = { x: event.clientX, from, to }; });
    drawing.addEventListener('dblclick', (event) => { const [x] = inside(event); if (x > labels) zoom(0.4, timeAt(x)); });
    drawing.addEventListener('wheel', (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.3 : 0.77, timeAt(Math.max(inside(event)[0], labels)));
    }, { passive: false });
    drawing.addEventListener('pointermove', (event) => {
      if (dragged) return;
      const [x, y] = inside(event), row = Math.floor((y - top) / height), one = lanes[row];
      if (!one) return hideTip();
      const cell = x > labels ? all[row].get(Math.floor((x - labels) / PIXELS)) : null;
      const causes = cell ? cell.causes.map((ops, cause) => ops && `${data.causes[cause]}: ${count(ops)}`).filter(Boolean).join('\n') : '';
      showTip(`${tellLane(one)}${cell ? `\nat ${seconds(timeAt(x) / 1e9)}: ${counted(cell.ops, 'operation', 'operations')}, ${count(cell.failed)} failed\n${causes}` : ''}`, event.clientX, event.clientY);
    });
    drawing.addEventListener('keydown', (event) => {
      const keys = { ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), '+': () => zoom(0.5), '=': () => zoom(0.5), '-': () => zoom(2), 0: () => go(0, line.duration_ns), Home: () => go(0, line.duration_ns),
        ArrowUp: () => pick(Math.max(picked - 1, 0)), ArrowDown: () => pick(Math.min(picked + 1, lanes.length - 1)) };
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    });
  }
  const pick = (row) => {
    picked = row;
    draw(frame.clientWidth);
    const y = 20 + row * height;
    if (y < frame.scrollTop || y + height > frame.scrollTop + frame.clientHeight) frame.scrollTop = y - 40;
  };
  addEventListener('pointermove', (event) => {
    if (!dragged) return;
    const by = (dragged.x - event.clientX) / (width - labels) * (dragged.to - dragged.from);
    if (Math.abs(dragged.x - event.clientX) > 3) { hideTip(); go(dragged.from + by, dragged.to + by); }
  });
  for (const name of ['pointerup', 'pointercancel']) addEventListener(name, () => { dragged = null; });
  const section_ = section('timeline', 'When, and which process', 'Each lane is a process, each bar what it did in that moment: its colour the cause, its height how many metadata operations. Times are as recorded, on the filesystem where it was recorded.',
    controls, frame, told, legend(data, causesWith(start, 'ops')));
  section_.dataset.ops = String(lanes.reduce((all, lane) => all + lane.ops, 0));
  drawnTo(frame, draw);
  return section_;
}
