// The trees of libraries and modules, with what each and all below it cost.
function treeView(data, start, id, title, about) {
  const root = grown(start[id]);
  if (root.ops === 0) return null;
  const most = root.ops, MOST = 40;
  const row = (node) => el('span', { class: 'row' }, el('span', { class: 'name' }, id === 'libraries' ? lastPart(node.name) : node.name),
    el('span', { class: 'cost-bar' }, el('span', { class: 'bar', style: { width: `${Math.max(node.ops / most * 100, 0.5)}px`, background: color(node.cause) } })),
    el('span', null, count(node.ops)), el('span', null, count(node.failed)), el('span', null, seconds(node.wait)));
  // Where a library was found is shown beside its name.
  const told = (node) => id === 'libraries' && node.name.includes('/') ? { 'data-tip': node.name } : {};
  const list = (below, depth) => {
    const sorted = below.slice().sort((a, b) => b.ops - a.ops), host = el('div');
    const add = (some) => host.append(...some.map((node) => branch(node, depth)));
    add(sorted.slice(0, MOST));
    if (sorted.length > MOST) {
      const more = el('button', { type: 'button', onclick: () => { more.remove(); add(sorted.slice(MOST)); } }, `${count(sorted.length - MOST)} more`);
      host.append(more);
    }
    return host;
  };
  // What is below is made when it is opened first.
  const branch = (node, depth) => {
    if (node.below.length === 0) return el('div', { class: 'leaf', tabindex: told(node)['data-tip'] ? 0 : null, ...told(node) }, row(node));
    const details = el('details', { open: depth < 1 }, el('summary', told(node), row(node)));
    const open = () => { if (details.open && details.childElementCount === 1) details.append(list(node.below, depth + 1)); };
    details.addEventListener('toggle', open);
    open();
    return details;
  };
  const head = el('div', { class: 'leaf quiet small', 'aria-hidden': 'true' }, el('span', { class: 'row' }, el('span', null, ''), el('span', { class: 'cost-bar' }, ''), el('span', null, 'ops'), el('span', null, 'failed'), el('span', null, '1 rank')));
  const node = section(id, title, about, el('div', { class: 'tree' }, head, list(root.below, 0)));
  Object.assign(node.dataset, { ops: String(root.ops), failed: String(root.failed) });
  return node;
}
