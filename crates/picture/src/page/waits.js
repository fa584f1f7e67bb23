// The wait by filesystem: the cost model's own numbers, to be moved.
function waitsView(data, start) {
  const waits = start.waits;
  if (waits.length === 0) return section('waits', 'The wait by filesystem', null, el('p', null, 'The recording does not tell what is waited for.'));
  let wait = waits[0], speeds = speedsOf(wait), job = jobOf(wait), latency = 0;
  const host = el('div'), results = el('div', { 'aria-live': 'polite' });
  const node = section('waits', 'The wait by filesystem',
    'What this start waits for the shared filesystem, by the model of becalm scale: RPCs times latency, bytes over bandwidth, and one queue for all ranks. Move what your site has. What a client caches stays as the chosen filesystem does it.',
    host, results);
  const noLimit = (value, limit) => value >= limit;
  const sliders = () => {
    // Each is chosen by itself, but none is answered sooner than the server is done with it.
    latency = speeds.trip + speeds.service;
    const labels = [];
    const settle = () => {
      speeds.trip = Math.max(latency - speeds.service, 0);
      labels.forEach((label) => label());
    };
    // Logarithmic: from, to, value, text, change.
    const slider = (label, from, to, value, text, set) => {
      const output = el('output', null, text(value));
      let chosen = value;
      labels.push(() => {
        output.textContent = text(chosen);
        input.setAttribute('aria-valuetext', text(chosen));
      });
      const at = (value) => Math.log(Math.min(Math.max(value, from), to) / from) / Math.log(to / from) * 1000;
      const input = el('input', { type: 'range', min: 0, max: 1000, step: 1, value: at(value), 'aria-valuetext': text(value), oninput: () => {
        const given = Number(input.value), now = given >= 1000 ? to : from * (to / from) ** (given / 1000);
        chosen = now;
        set(now);
        settle();
        later();
      } });
      return el('label', null, label, output, input);
    };
    const MOST_OPS = 1e7, MOST_BANDWIDTH = 1e12;
    const whole = (value) => Math.max(1, Math.round(Number(value.toPrecision(2))));
    return el('div', { class: 'sliders' },
      slider('Metadata latency', 1e3, 2e7, speeds.trip + speeds.service, (value) => seconds(Math.max(value, speeds.service) / 1e9), (value) => { latency = Math.round(value); }),
      slider('MDS ops/s', 1e3, MOST_OPS, speeds.service ? 1e9 / speeds.service : MOST_OPS, (value) => noLimit(value, MOST_OPS) ? 'no limit' : count(whole(value)), (value) => {
        speeds.service = noLimit(value, MOST_OPS) ? 0 : Math.round(1e9 / whole(value));
      }),
      slider('Bandwidth', 1e7, MOST_BANDWIDTH, speeds.bandwidth || MOST_BANDWIDTH, (value) => noLimit(value, MOST_BANDWIDTH) ? 'no limit' : `${bytes(value)}/s`, (value) => {
        speeds.bandwidth = noLimit(value, MOST_BANDWIDTH) ? null : Number(value.toPrecision(2));
      }),
      slider('Ranks that start at once', 1, 1e5, job.ranks, (value) => count(whole(value)), (value) => { job.ranks = whole(value); }),
      slider('Ranks on a node', 1, 512, job.ranksPerNode, (value) => count(whole(value)), (value) => { job.ranksPerNode = whole(value); }));
  };
  const controls = () => {
    const select = el('select', { 'aria-label': 'Filesystem', onchange: () => {
      wait = waits[select.selectedIndex];
      speeds = speedsOf(wait);
      build();
    } }, waits.map((one) => el('option', { selected: one === wait }, one.profile)));
    const reset = el('button', { type: 'button', onclick: () => { speeds = speedsOf(wait); job = jobOf(wait); build(); } }, 'As predicted');
    return el('div', { class: 'controls' }, el('label', null, 'Filesystem ', select), reset, el('span', { class: 'quiet small' }, wait.about));
  };
  let timer = 0;
  const later = () => { clearTimeout(timer); timer = setTimeout(show, 60); };
  const build = () => { host.replaceChildren(controls(), sliders()); show(); };
  const show = () => {
    const own = waitsByCause(wait, speeds), one = oneRank(wait, speeds), all = allRanks(wait, speeds, job);
    Object.assign(node.dataset, { profile: wait.profile, one: String(one), all: String(all), predictedOne: String(wait.one_rank), predictedAll: String(wait.all_ranks) });
    const parts = own.map((value, cause) => [value, cause]).filter(([value]) => value > 0).sort((a, b) => b[0] - a[0]);
    const part = ([value, cause]) => el('span', { tabindex: 0, role: 'img', 'data-tip': `${data.causes[cause]}: 1 rank waits ${seconds(value)}, ${percent(value, one)}`, 'aria-label': `${data.causes[cause]}: ${seconds(value)}`,
      style: { width: `${one ? value / one * 100 : 0}%`, background: color(cause) } });
    results.replaceChildren(
      el('div', { class: 'figures' }, figure(seconds(one), `1 rank waits on ${wait.profile}`),
        figure(seconds(all), `${counted(job.ranks, 'rank waits', 'ranks wait')} on ${counted(nodesOf(job), 'node', 'nodes')}`)),
      el('div', { class: 'stack', role: 'group', 'aria-label': 'What 1 rank waits for, by cause' }, parts.map(part)),
      legend(data, parts.map(([, cause]) => cause)), others(one, all),
      ...(wait.job && job.ranks !== wait.ranks ? [el('p', { class: 'quiet small' }, `While ranks wait, clients forget names and ask again: counted here as for ${count(wait.ranks)} ranks. For another number: becalm scale --ranks ${job.ranks}.`)] : []));
  };
  // Every filesystem at its own speeds, for the job that is chosen.
  const known = new Map();
  const atItsOwn = (other) => {
    const key = `${other.profile} ${job.ranks} ${job.ranksPerNode}`;
    if (!known.has(key)) known.set(key, [oneRank(other, speedsOf(other)), allRanks(other, speedsOf(other), job)]);
    return known.get(key);
  };
  const others = (one, all) => {
    const rows = waits.map((other) => other === wait ? [`${other.profile} (above)`, one, all] : [other.profile, ...atItsOwn(other)]);
    const most = Math.max(...rows.map((row) => row[2]), 1e-9);
    const bar = (value) => el('span', { class: 'bar', style: { width: `${Math.max(value / most * 100, 0.3)}%`, background: 'var(--accent)' } });
    return tableOf(['filesystem', '#1 rank', `#${counted(job.ranks, 'rank', 'ranks')}`, ''], rows.map(([name, one, all]) => [name, seconds(one), seconds(all), bar(all)]));
  };
  build();
  return node;
}
