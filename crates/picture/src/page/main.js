// Puts the page together.
function startView(data, start) {
  const about = start.predicted_wait ? [start.threshold, ...start.assumptions] : [start.threshold];
  return [verdict(data, start), waitsView(data, start), timelineView(data, start), treemapView(data, start),
    treeView(data, start, 'libraries', 'Libraries, and what needs them', 'Each library below what needed it first, with the search for it and for all below it: metadata operations, failed lookups, and what 1 rank waits for them.'),
    treeView(data, start, 'modules', 'Imports and modules', 'Python modules by package, and modulefiles, with the search for each. Which module a call belongs to is inferred from the paths.'),
    section('notes', 'How it is counted', null, el('ul', { class: 'plain small quiet' }, about.map((text) => el('li', null, text))))];
}
function drawPage(data) {
  const page = document.getElementById('page'), foot = el('footer', { class: 'quiet small' }, el('p', null, `becalm ${data.version}. This file needs no network, and sends nothing anywhere.`));
  if (data.ranks) {
    document.title = `ranks: ${data.ranks.headline} - becalm`;
    page.replaceChildren(...ranksView(data.ranks).flat(), foot);
    drawPlaced();
    return;
  }
  const head = el('div'), body = el('div'), isTwo = data.starts.length > 1;
  const show = (start) => {
    document.title = `${start.verdict}: ${start.program} - becalm`;
    head.replaceChildren(heading(data, start));
    body.replaceChildren(...startView(data, start).filter(Boolean));
    if (body.isConnected) drawPlaced();
  };
  const chosen = isTwo && el('div', null, headingOfTwo(data.starts), data.note && el('p', { id: 'note' }, data.note), comparison(data),
    el('h2', null, 'One of them'), choice('Which start is shown', data.starts.map((start, at) => [String(at), start.label]), '0', (at) => show(data.starts[Number(at)])));
  show(data.starts[0]);
  page.replaceChildren(...[chosen, head, body, foot].filter(Boolean));
  drawPlaced();
}
try {
  drawPage(JSON.parse(document.getElementById('data').textContent));
  document.documentElement.dataset.becalm = 'drawn';
} catch (error) {
  document.documentElement.dataset.becalm = 'failed';
  document.getElementById('page').replaceChildren(el('p', { class: 'warning' }, `This browser cannot draw the picture: ${error.message}`));
}
