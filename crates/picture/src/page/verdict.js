// The verdict, its storms, what can be done; and two starts side by side.
const KINDS = { 'SLOW START': 'slow', CALM: 'calm' };
function tableOf(heads, rows) {
  const isNumber = (at) => heads[at].startsWith('#');
  const kind = (at) => isNumber(at) ? 'number' : at === 0 ? 'path' : heads[at] === '' ? 'bars' : null;
  const cell = (tag) => (value, at) => el(tag, { class: kind(at) }, value);
  return el('div', { class: 'scroll' }, el('table', null,
    el('thead', null, el('tr', null, heads.map((head, at) => cell('th')(head.replace('#', ''), at)))),
    el('tbody', null, rows.map((row) => el('tr', null, row.map(cell('td')))))));
}
function heading(data, start) {
  const when = start.started_unix ? new Date(start.started_unix * 1000).toISOString().slice(0, 16).replace('T', ' ') + ' UTC' : '';
  const about = [start.host, start.kernel && `Linux ${start.kernel}`, when].filter(Boolean).join(' · ');
  return el('header', null,
    el('div', { class: `verdict ${KINDS[start.verdict] || 'undecided'}`, id: 'word' }, start.verdict),
    el('h1', null, start.headline),
    el('code', { class: 'command', 'aria-label': 'The command' }, start.command),
    el('p', { class: 'quiet small' }, about));
}
function verdict(data, start) {
  const wait = start.predicted_wait, totals = start.totals;
  const numbers = el('div', { class: 'figures' },
    figure(count(totals.metadata_ops), 'metadata operations'),
    figure(count(totals.enoent), `failed lookups (${percent(totals.enoent, totals.metadata_ops)})`),
    wait && figure(seconds(wait.one_rank), `1 rank waits on ${start.profile}`),
    wait && figure(seconds(wait.all_ranks), `${counted(start.ranks, 'rank waits', 'ranks wait')} on ${counted(start.nodes, 'node', 'nodes')}`),
    figure(count(totals.processes), totals.processes === 1 ? 'process' : 'processes'));
  const storm = (one) => el('li', null, el('h3', null, one.title), el('p', null, `${one.cause}.`),
    el('p', { class: 'quiet small' }, `${one.name}: ${counted(one.ops, 'metadata operation', 'metadata operations')}, ${count(one.failed)} failed; 1 rank waits ${seconds(one.one_rank)}, all ranks ${seconds(one.all_ranks)}`),
    el('ul', { class: 'plain small' }, one.sources.map((source) => el('li', null, source))));
  const cure = (one) => el('li', null, el('p', null, one.text + (one.gain ? `: ${one.gain}` : '')), one.command && el('code', { class: 'command' }, one.command));
  const most = Math.max(...start.causes.map((cause) => cause.ops), 1);
  const bar = (cause) => {
    const uses = start.causes[cause], width = `${Math.max(uses.ops / most * 100, 0.5)}%`;
    const failed = el('span', { class: 'bar hatched', style: { width: `${uses.ops ? uses.failed / uses.ops * 100 : 0}%`, 'background-color': 'transparent', 'vertical-align': 'top' } });
    return [data.causes[cause], count(uses.ops), count(uses.failed), seconds(uses.wait),
      el('span', { class: 'bar', style: { width, background: color(cause) } }, failed)];
  };
  return el('div', null, start.warnings.map((text) => el('p', { class: 'warning' }, text)), numbers,
    start.storms.length > 0 && section('storms', start.storms.length === 1 ? 'The storm' : 'The storms', null, el('ul', { class: 'plain' }, start.storms.map(storm))),
    start.cures.length > 0 && section('cures', 'What calms it', null, el('ul', { class: 'plain' }, start.cures.map(cure))),
    section('causes', 'By cause', 'Why each metadata operation was made. The hatched part are failed lookups: names that were not there.',
      tableOf(['cause', '#ops', '#failed', '#1 rank waits', ''], causesWith(start, 'wait').concat(causesWith(start, 'ops')).filter((cause, at, all) => all.indexOf(cause) === at).sort((a, b) => start.causes[b].ops - start.causes[a].ops).map(bar))));
}
function headingOfTwo([before, after]) {
  const word = (start) => el('span', { class: KINDS[start.verdict] || 'undecided' }, start.verdict);
  const counts = (of) => `${count(before.totals[of])} → ${count(after.totals[of])}`;
  return el('header', null, el('div', { class: 'verdict' }, word(before), ' → ', word(after)),
    el('h1', null, `${after.program}: ${counts('metadata_ops')} metadata operations, ${counts('enoent')} failed lookups`));
}
// Two starts: what each did, cause by cause and directory by directory.
function comparison(data) {
  const [before, after] = data.starts, change = (a, b) => a === b ? '=' : a === 0 ? 'new' : `${b > a ? '+' : '−'}${Math.round(Math.abs(b - a) / a * 100)} %`;
  const row = (name, a, b, text) => [name, text(a), text(b), change(a, b)];
  const wait = (start, of) => start.predicted_wait ? start.predicted_wait[of] : 0;
  const rows = [
    row('metadata operations', before.totals.metadata_ops, after.totals.metadata_ops, count),
    row('failed lookups', before.totals.enoent, after.totals.enoent, count),
    row('processes', before.totals.processes, after.totals.processes, count),
    row(`1 rank waits on ${before.profile}`, wait(before, 'one_rank'), wait(after, 'one_rank'), seconds),
    row(`${counted(before.ranks, 'rank waits', 'ranks wait')}`, wait(before, 'all_ranks'), wait(after, 'all_ranks'), seconds)];
  const most = Math.max(...data.starts.flatMap((start) => start.causes.map((cause) => cause.ops)), 1);
  const side = (start) => el('figure', { style: { margin: '0' } }, el('h3', null, `${start.label}: ${start.verdict}`),
    tableOf(['cause', '#ops', ''], start.causes.map((uses, cause) => [uses, cause]).filter(([, cause]) => data.starts.some((one) => one.causes[cause].ops > 0))
      .map(([uses, cause]) => [data.causes[cause], count(uses.ops), el('span', { class: 'bar', style: { width: `${uses.ops / most * 100}%`, background: color(cause) } })])));
  const directories = data.comparison.directories.map(([name, a, b]) => [name, count(a[0]), count(b[0]), count(a[1]), count(b[1]), change(a[0], b[0])]);
  const node = section('comparison', 'Before and after', null, tableOf(['', '#before', '#after', '#change'], rows), el('div', { class: 'sides' }, data.starts.map(side)),
    el('h3', null, 'By directory'), tableOf(['directory', '#ops before', '#after', '#failed before', '#after', '#change'], directories));
  node.dataset.ops = `${before.totals.metadata_ops} ${after.totals.metadata_ops}`;
  return node;
}
