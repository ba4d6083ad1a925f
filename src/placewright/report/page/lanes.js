// Lanes: one for the host thread that launches; per device one for computing, one for what was measured, one per link
// used, one for memory; their heights and where they stand.

const AXIS_HEIGHT = 26;
const COMPUTE_HEIGHT = 30;
const LINK_HEIGHT = 15;
const MEMORY_HEIGHT = 58;
const HOST_HEIGHT = 18;
const LANE_GAP = 3;
const GROUP_GAP = 14;

let lanes = [];
let lanesHeight = 0;
const laneOfStep = new Int32Array(numSteps);

const byStart = (a, b) => startOf[a] - startOf[b] || finishOf[a] - finishOf[b];
const computeSteps = devices.map(() => []);
const linkSteps = devices.map(() => new Map());

for (let step = 0; step < numSteps; step++) {
  const device = deviceOf(step);
  if (isOp(step)) {
    computeSteps[device].push(step);
  } else if (raw.blocking) {
    computeSteps[device].push(step);
    computeSteps[destinationOf(step)].push(step);
  } else {
    const links = linkSteps[device];
    if (!links.has(destinationOf(step))) links.set(destinationOf(step), []);
    links.get(destinationOf(step)).push(step);
  }
}

// A lane's steps in order, with what binary search needs. Steps of one lane never overlap.
function stepLane(device, destination, steps, height) {
  const ordered = Int32Array.from(steps).sort(byStart);
  return {type: destination < 0 ? 'compute' : 'link', device, destination, steps: ordered, height,
    starts: Float64Array.from(ordered, (step) => startOf[step]),
    finishes: Float64Array.from(ordered, (step) => finishOf[step])};
}

// What a device did when the plan was run, on the axis of the plan; none where it was not run.
function measuredLane(device) {
  const ran = computeSteps[device].filter((step) => isOp(step) && ranFrom[step] >= 0)
    .sort((a, b) => ranFrom[a] - ranFrom[b] || ranTo[a] - ranTo[b]);
  return {type: 'measured', device, destination: -1, steps: Int32Array.from(ran), height: COMPUTE_HEIGHT,
    starts: Float64Array.from(ran, (step) => ranFrom[step]),
    finishes: Float64Array.from(ran, (step) => ranTo[step])};
}

const allLanes = devices.map((_, device) => ({
  compute: stepLane(device, -1, computeSteps[device], COMPUTE_HEIGHT),
  measured: raw.run ? [measuredLane(device)] : [],
  links: [...linkSteps[device]].sort((a, b) => a[0] - b[0])
    .map(([destination, steps]) => stepLane(device, destination, steps, LINK_HEIGHT)),
  memory: {type: 'memory', device, destination: -1, height: MEMORY_HEIGHT},
}));

// Launches of the host thread, by the step that each is of; none where no thread launches for all devices.
const hostLane = {type: 'host', device: -1, destination: -1, steps: launchedSteps, height: HOST_HEIGHT,
  starts: launchEnds.map((_, i) => (i ? launchEnds[i - 1] : 0)), finishes: launchEnds};

function layOutLanes() {
  lanes = [];
  let y = AXIS_HEIGHT + 8;
  if (hostLane.steps.length) {
    hostLane.y = y;
    lanes.push(hostLane);
    y += hostLane.height + GROUP_GAP;
  }
  for (const group of allLanes) {
    const shown = [group.compute, ...group.measured, ...(view.showLinks ? group.links : []),
      ...(view.showMemory ? [group.memory] : [])];
    for (const lane of shown) {
      lane.y = y;
      lanes.push(lane);
      y += lane.height + LANE_GAP;
    }
    y += GROUP_GAP - LANE_GAP;
  }
  lanesHeight = y;
  laneOfStep.fill(-1);
  lanes.forEach((lane, index) => {
    if (lane !== hostLane && lane.type !== 'measured') for (const step of lane.steps || []) if (laneOfStep[step] < 0) laneOfStep[step] = index;
  });
}

const laneAt = (y) => lanes.find((lane) => y >= lane.y && y < lane.y + lane.height);

// The step of a lane at a moment, or the nearest one within `slack`; of zero-length steps the first.
function stepInLane(lane, time, slack) {
  let best = -1;
  let distance = slack;
  const first = Math.max(0, lowerBound(lane.finishes, time - slack) - 1);
  for (let i = first; i < lane.steps.length && lane.starts[i] <= time + slack; i++) {
    const away = Math.max(lane.starts[i] - time, time - lane.finishes[i], 0);
    if (away < distance || (away === 0 && best < 0)) {
      best = lane.steps[i];
      distance = away;
    }
    if (away === 0 && lane.finishes[i] > lane.starts[i]) break;
  }
  return best;
}
