// The plan's columns. A step is an op (0 ... numOps - 1) or a transfer (numOps ... numSteps - 1).

const raw = JSON.parse(document.getElementById('plan-data').textContent);
const devices = raw.devices;
const plannedEnd = Math.max(raw.end, 1);
const endTime = Math.max(plannedEnd, raw.run ? raw.run.end : 0);
const numOps = raw.ops.name.length;
const numSteps = numOps + raw.transfers.name.length;

const both = (field) => Float64Array.from([...raw.ops[field], ...raw.transfers[field]]);
const startOf = both('start');
const finishOf = both('duration').map((duration, step) => startOf[step] + duration);
const positionOf = both('position');
const waitsFor = both('waits');
const WAITS_FOR_LAUNCH = -2;
const bytesOf = both('bytes');

const stepAtPosition = new Map();
positionOf.forEach((position, step) => stepAtPosition.set(position, step));

const criticalPath = raw.critical.map((position) => stepAtPosition.get(position));
const isCritical = new Uint8Array(numSteps);
for (const step of criticalPath) isCritical[step] = 1;

const isOp = (step) => step < numOps;
const nameOf = (step) => (isOp(step) ? raw.ops.name[step] : raw.transfers.name[step - numOps]);
const lookedUp = (column) => (op) => column.table[column.at[op]];
const kindOf = lookedUp(raw.ops.kind);
const moduleOf = lookedUp(raw.ops.module);
const phaseOf = lookedUp(raw.ops.phase);
const sourceOf = lookedUp(raw.ops.source);
const deviceOf = (step) => (isOp(step) ? raw.ops.device[step] : raw.transfers.source[step - numOps]);
const destinationOf = (step) => (isOp(step) ? -1 : raw.transfers.destination[step - numOps]);
const producerOf = (step) => (isOp(step) ? step : raw.transfers.producer[step - numOps]);

function whereOf(step) {
  const name = devices[deviceOf(step)].name;
  return isOp(step) ? name : `${name} → ${devices[destinationOf(step)].name}`;
}

function runningSums(differences) {
  let sum = 0;
  return Float64Array.from(differences, (difference) => (sum += difference));
}

const curves = raw.curves.map((curve) => ({time: runningSums(curve.time), bytes: runningSums(curve.bytes)}));

// What the one host thread launches, in its order, and when it is done with each; it never waits. -1: not launched.
const launchedSteps = Int32Array.from(raw.launches.position, (position) => stepAtPosition.get(position));
const launchEnds = runningSums(raw.launches.duration);
const launchedAt = new Float64Array(numSteps).fill(-1);
launchedSteps.forEach((step, i) => { launchedAt[step] = launchEnds[i]; });

// When ops ran where the plan was run; -1: nothing is known of it.
const ranFrom = new Float64Array(numSteps).fill(-1);
const ranTo = new Float64Array(numSteps).fill(-1);
for (let i = 0; raw.run && i < raw.run.position.length; i++) {
  const step = stepAtPosition.get(raw.run.position[i]);
  ranFrom[step] = raw.run.start[i];
  ranTo[step] = raw.run.start[i] + raw.run.duration[i];
}

// First index in a sorted array whose value is at least `value`.
function lowerBound(sorted, value) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
