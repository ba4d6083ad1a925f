// What lies over the lanes: the critical path, the slices pointed at and pinned, the span being drawn over.

// Changes of lane nearer to each other than this are not all drawn: together they would hide the lanes.
const CROSSING_DISTANCE = 14;

// A strip below the slices of the path, and lines where it passes from lane to lane; past transfers that are not shown.
function drawCriticalPath(ctx, ink) {
  ctx.fillStyle = ctx.strokeStyle = ink.critical;
  ctx.globalAlpha = search.active ? 0.3 : 1;
  let [drawnTo, before] = [-Infinity, -1];
  const crossings = [];
  for (const step of criticalPath) {
    if (laneOfStep[step] < 0) continue;
    const changes = before >= 0 && laneOfStep[before] !== laneOfStep[step];
    const from = before;
    before = step;
    if (finishOf[step] < view.from || startOf[step] > view.to) continue;
    const [lane, left, right] = [lanes[laneOfStep[step]], xOf(startOf[step]), xOf(finishOf[step])];
    if (changes) crossings.push([from, step]);
    if (right < drawnTo + 0.5 && !changes) continue;
    ctx.fillRect(left, lane.y + lane.height - 2, Math.max(right - left, 1), 4);
    drawnTo = right;
  }
  drawLaunches(ctx);
  drawCrossings(ctx, crossings);
  ctx.globalAlpha = 1;
}

// The path begins with the host's launches where its first step waited for its own.
function drawLaunches(ctx) {
  const first = criticalPath[0];
  if (first === undefined || waitsFor[first] !== WAITS_FOR_LAUNCH || launchedAt[first] < view.from) return;
  if (!hostLane.steps.length || laneOfStep[first] < 0) return;
  const [left, right, lane] = [xOf(0), xOf(launchedAt[first]), lanes[laneOfStep[first]]];
  ctx.fillRect(left, hostLane.y + hostLane.height - 2, Math.max(right - left, 1), 4);
  ctx.fillRect(right - 0.5, hostLane.y + hostLane.height, 1, lane.y + lane.height - hostLane.y - hostLane.height);
}

// Where a line to a transfer is drawn, the one on from it is, too. How many there are is said in the legend.
function drawCrossings(ctx, crossings) {
  ctx.globalAlpha *= 0.5;
  ctx.lineWidth = 1;
  ctx.beginPath();
  let [shown, newest, drawn] = [false, -Infinity, 0];
  for (const [before, step] of crossings) {
    const x = xOf(startOf[step]);
    const continues = shown && !isOp(before);
    shown = continues || x >= newest + CROSSING_DISTANCE;
    if (!shown) continue;
    if (!continues) newest = x;
    if (isOp(step)) drawn++;
    const [origin, lane] = [lanes[laneOfStep[before]], lanes[laneOfStep[step]]];
    ctx.moveTo(xOf(finishOf[before]), origin.y + origin.height - 1);
    ctx.lineTo(x, lane.y + lane.height - 1);
  }
  ctx.stroke();
  const all = crossings.filter(([, step]) => isOp(step)).length;
  const told = `: ${formatCount(drawn)} of ${formatCount(all)} changes of device drawn`;
  noteCrossings(drawn === all ? '' : printing ? told : `${told}, zoom in for more`);
}

let crossingsNote = '';

function noteCrossings(note = crossingsNote) {
  crossingsNote = note;
  const place = document.getElementById('crossings-note');
  if (place) place.textContent = note;
}

function outline(ctx, lane, from, to, width) {
  const left = Math.max(xOf(from), frame.gutter - 4);
  const right = Math.min(xOf(to), frame.gutter + frame.plot + 4);
  if (right < left) return;
  ctx.strokeRect(left - width / 2, lane.y - width / 2, Math.max(right - left, 1) + width, lane.height + width);
}

function drawPicked(ctx, ink) {
  for (const [step, width] of [[view.hovered, 1], [view.selected, 2]]) {
    if (step < 0 || laneOfStep[step] < 0) continue;
    ctx.strokeStyle = ink.selected;
    ctx.lineWidth = width;
    outline(ctx, lanes[laneOfStep[step]], startOf[step], finishOf[step], width);
    const [measured] = isOp(step) ? allLanes[deviceOf(step)].measured : [];
    if (measured && ranFrom[step] >= 0) outline(ctx, measured, ranFrom[step], ranTo[step], width);
  }
  if (view.hoveredTime === null) return;
  ctx.fillStyle = ink.muted;
  ctx.globalAlpha = 0.5;
  ctx.fillRect(Math.round(xOf(view.hoveredTime)), frame.scroll + AXIS_HEIGHT, 1, frame.height);
  ctx.globalAlpha = 1;
}

function drawBrush(ctx, ink) {
  if (!view.brush) return;
  const [from, to] = view.brush.map(xOf);
  ctx.fillStyle = ink.shade;
  ctx.fillRect(Math.min(from, to), AXIS_HEIGHT, Math.abs(to - from), frame.height);
  ctx.strokeStyle = ink.accent;
  ctx.strokeRect(Math.min(from, to), AXIS_HEIGHT, Math.abs(to - from), frame.height);
}
