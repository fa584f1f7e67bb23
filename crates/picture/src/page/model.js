// The cost model: the formula of crates/cost (wait_terms.rs, closed_queue.rs), held against it by
// tests/model.rs. Times are in nanoseconds, unless named otherwise.

// Terms: cached RPCs, own RPCs, round trips beside, bytes, transfers, fault bytes, fault requests, disk.
const transferTime = (speeds, bytes) => speeds.bandwidth ? Math.floor(bytes / speeds.bandwidth * 1e9) : 0;
const tripsOfData = (speeds, terms) => terms[4] * speeds.dataTrip
  + terms[6] * (speeds.fault === null ? speeds.trip + speeds.service : speeds.fault);
const aloneTime = (speeds, terms) => (terms[0] + terms[1]) * (speeds.trip + speeds.service) - terms[2] * speeds.trip
  + transferTime(speeds, terms[3]) + transferTime(speeds, terms[5]) + tripsOfData(speeds, terms) + terms[7];

// Seconds that one rank waits on a node of its own, by cause, and in all.
const waitsByCause = (wait, speeds) => wait.groups.map((terms) => aloneTime(speeds, terms) / 1e9);
const oneRank = (wait, speeds) => waitsByCause(wait, speeds).reduce((all, one) => all + one, 0);

// A profile's own speeds and job.
const speedsOf = (wait) => ({ trip: wait.round_trip_ns, service: wait.service_ns, dataTrip: wait.data_round_trip_ns,
  bandwidth: wait.bandwidth, fault: wait.fault_ns });
const jobOf = (wait) => ({ ranks: wait.ranks, ranksPerNode: wait.ranks_per_node });
const nodesOf = (job) => Math.ceil(job.ranks / job.ranksPerNode);

const share = (all, parts, number) => Math.floor(all / parts) + (number < all % parts ? 1 : 0);

// Groups of nodes, and the groups of ranks on them, that move as one.
function divide(job) {
  const most = 64, onANodeAtLeast = 8;
  const ranks = Math.max(job.ranks, 1), nodes = Math.max(nodesOf(job), 1);
  const onANode = Math.ceil(ranks / nodes);
  const parts = Math.min(onANode, Math.max(Math.floor(most / Math.min(nodes, most)), Math.min(onANodeAtLeast, most)));
  const groups = Math.min(nodes, Math.max(Math.floor(most / parts), 1));
  const sizes = [], rankGroups = [];
  for (let group = 0, from = 0; group < groups; group++) {
    const ofNodes = share(nodes, groups, group);
    const ofRanks = Math.floor(ranks / nodes) * ofNodes + Math.min(Math.max(ranks % nodes - from, 0), ofNodes);
    from += ofNodes;
    sizes.push(ofNodes);
    const own = Math.min(parts, Math.max(ofRanks, 1));
    for (let part = 0; part < own; part++) rankGroups.push({ node: group, ranks: ofRanks / own, step: 0, phase: 0, at: 0 });
  }
  return { sizes, rankGroups };
}

// Steps as columns: computing, then the terms.
function columnsOf(start) {
  if (!start.columns) {
    start.columns = Array.from({ length: 9 }, (_, at) => Float64Array.from(start.steps, (step) => step[at] || 0));
  }
  return start.columns;
}

// Seconds that the last of all ranks waits, in the queues of one metadata server and one data server.
function allRanks(wait, speeds, job) {
  const start = wait.job || wait.alone;
  const [think, cached, own, beside, bytes, transfers, faultBytes, faults, disk] = columnsOf(start);
  const { sizes, rankGroups } = divide(job);
  const all = think.length, none = () => new Float64Array(all).fill(NaN);
  const cachedAt = sizes.map(none), dataAt = sizes.map(none), read = none();
  const metadata = { free: 0 }, data = { free: 0 };
  const serve = (server, at, first, whole) => {
    const begins = Math.max(server.free, at);
    server.free = begins + whole;
    return begins + first;
  };
  const fetched = (step, group, at) => {
    const size = bytes[step] + faultBytes[step];
    if (size === 0) return at;
    if (Number.isNaN(dataAt[group][step])) {
      const time = transferTime(speeds, size);
      const trips = tripsOfData(speeds, [0, 0, 0, 0, transfers[step], 0, faults[step]]);
      dataAt[group][step] = serve(data, at, time, time * sizes[group]) + trips;
    }
    return Math.max(at, dataAt[group][step]);
  };
  // One phase: computing, RPCs of the node, RPCs of each rank, data.
  const goOn = (some, at) => {
    const step = some.step, group = some.node;
    switch (some.phase++) {
      case 0: return at + think[step];
      case 1: {
        if (cached[step] === 0) return at;
        if (Number.isNaN(cachedAt[group][step])) {
          const work = cached[step] * speeds.service;
          cachedAt[group][step] = serve(metadata, at, work, work * sizes[group]) + (cached[step] - beside[step]) * speeds.trip;
        }
        return Math.max(at, cachedAt[group][step]);
      }
      case 2: {
        if (own[step] === 0) return at;
        const work = own[step] * speeds.service;
        return serve(metadata, at, work, work * some.ranks) + own[step] * speeds.trip;
      }
      default: {
        some.phase = 0;
        some.step++;
        const there = fetched(step, group, at);
        if (Number.isNaN(read[step])) read[step] = there + disk[step];
        return Math.max(there, read[step]);
      }
    }
  };
  const sendsOwn = own.some((rpcs) => rpcs > 0);
  let last = 0, waiting = rankGroups.slice();
  while (waiting.length > 0) {
    let first = 0, others = Infinity;
    for (let at = 1; at < waiting.length; at++) {
      if (waiting[at].at < waiting[first].at) { others = waiting[first].at; first = at; } else others = Math.min(others, waiting[at].at);
    }
    const some = waiting[first];
    while (some.at <= others && some.step < all) some.at = goOn(some, some.at);
    if (some.step >= all) {
      const members = sendsOwn ? some.ranks : sizes[some.node];
      last = Math.max(last, some.at + (members - 1) * speeds.service);
      waiting.splice(first, 1);
    }
  }
  const seconds = Math.max((last + start.rest_ns - wait.compute_ns) / 1e9, 0);
  return Math.max(seconds, oneRank(wait, speeds));
}
