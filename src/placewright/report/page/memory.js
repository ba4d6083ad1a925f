// Memory in use as stepped areas: a lane per device in the timeline, all of them on one scale.

const MEMORY_HEADROOM = 18;
const highestPeak = Math.max(1, ...devices.map((device) => device.peak));
// A limit far above every peak would press the curves flat: it is named beside the lane, not drawn.
const drawnLimit = (limit) => limit !== null && limit <= highestPeak * 2;
const memoryTop = Math.max(highestPeak, ...devices.map(({limit}) => (drawnLimit(limit) ? limit : 0)));

function drawMemoryLane(ctx, ink, lane) {
  const {device, y, height} = lane;
  const {limit, peak} = devices[device];
  const yOf = (bytes) => y + height - 1 - (bytes / memoryTop) * (height - MEMORY_HEADROOM);
  drawMemoryScale(ctx, ink, yOf);
  traceMemory(ctx, stepsOf(curves[device], view.from, view.to, xOf), frame.gutter + frame.plot, yOf);
  ctx.strokeStyle = ink.memory;
  ctx.lineWidth = 1.25;
  ctx.stroke();
  ctx.lineTo(frame.gutter + frame.plot, y + height);
  ctx.lineTo(frame.gutter, y + height);
  ctx.fillStyle = ink.memoryFill;
  ctx.fill();
  if (drawnLimit(limit)) drawLimit(ctx, ink, frame.gutter, frame.gutter + frame.plot, yOf(limit));
  drawPeakMark(ctx, ink, xOf(raw.peaks[device].time), yOf(peak), peak);
}

// A line or two at round sizes, the same in every lane.
function drawMemoryScale(ctx, ink, yOf) {
  const step = 2 ** Math.floor(Math.log2(memoryTop / 1.4));
  ctx.font = SMALL_FONT;
  ctx.textBaseline = 'bottom';
  for (let bytes = step; bytes <= memoryTop; bytes += step) {
    ctx.fillStyle = ink.line;
    ctx.fillRect(frame.gutter, Math.round(yOf(bytes)), frame.plot, 1);
    ctx.fillStyle = ink.muted;
    ctx.fillText(roundBytes(bytes), frame.gutter + 4, yOf(bytes) - 1);
  }
}

// The curve between two moments as {x, most, last}, one per half pixel in which it changes, so that no peak is lost.
function stepsOf(curve, from, to, xAt) {
  let i = lowerBound(curve.time, from);
  const before = i > 0 ? curve.bytes[i - 1] : curve.bytes.length ? curve.bytes[0] : 0;
  const steps = [{x: xAt(from), most: before, last: before}];
  for (; i < curve.time.length && curve.time[i] <= to; i++) {
    const x = Math.floor(xAt(curve.time[i]) * 2) / 2;
    const newest = steps[steps.length - 1];
    if (newest.x >= x) {
      newest.most = Math.max(newest.most, curve.bytes[i]);
      newest.last = curve.bytes[i];
    } else {
      steps.push({x, most: Math.max(curve.bytes[i], newest.last), last: curve.bytes[i]});
    }
  }
  return steps;
}

function traceMemory(ctx, steps, right, yOf) {
  ctx.beginPath();
  for (const [i, step] of steps.entries()) {
    if (i > 0) ctx.lineTo(step.x, yOf(steps[i - 1].last));
    ctx.lineTo(step.x, yOf(step.most));
    if (step.last !== step.most) ctx.lineTo(step.x, yOf(step.last));
  }
  ctx.lineTo(right, yOf(steps[steps.length - 1].last));
}

function drawLimit(ctx, ink, left, right, y) {
  ctx.strokeStyle = ink.limit;
  ctx.lineWidth = 1;
  ctx.setLineDash([5, 4]);
  ctx.beginPath();
  ctx.moveTo(left, Math.round(y) + 0.5);
  ctx.lineTo(right, Math.round(y) + 0.5);
  ctx.stroke();
  ctx.setLineDash([]);
}

function drawPeakMark(ctx, ink, x, y, peak) {
  if (x < frame.gutter || x > frame.gutter + frame.plot) return;
  ctx.beginPath();
  ctx.arc(x, y, 3.5, 0, 7);
  ctx.fillStyle = ink.memory;
  ctx.fill();
  ctx.strokeStyle = ink.surface;
  ctx.stroke();
  const label = `peak ${formatBytes(peak)}`;
  ctx.font = TEXT_FONT;
  ctx.textBaseline = 'bottom';
  ctx.fillStyle = ink.text;
  const width = ctx.measureText(label).width;
  const right = x + 8 + width < frame.gutter + frame.plot;
  ctx.fillText(label, right ? x + 6 : x - 8 - width, y - 1);
}

// What stands left of a memory lane: its limit, drawn in the lane or off its scale.
function memoryLabelOf(device, small) {
  const {limit} = devices[device];
  if (limit === null) return ['memory', 'no limit'];
  if (drawnLimit(limit)) return ['memory', small ? formatBytes(limit) : `limit ${formatBytes(limit)}`];
  return small ? ['memory', 'limit off', 'this scale'] : ['memory', `limit ${formatBytes(limit)},`, 'off this scale'];
}

function drawMemoryLabel(ctx, ink, lane, write, small) {
  const {limit, peak} = devices[lane.device];
  memoryLabelOf(lane.device, small).forEach((text, i) => {
    if (i > 0 && limit !== null && peak > limit) ctx.fillStyle = ink.limit;
    write(text, small ? 10 : 22, lane.y + 13 + 15 * i);
  });
}
