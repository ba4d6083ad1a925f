// Memory over time of the captured order and of the plan, on one axis each for time and memory.

const memoryCanvas = document.getElementById('memory-over-time');
const MEMORY_HEIGHT_WHOLE = 260;
const beforeCurve = raw.before && {time: runningSums(raw.before.time), bytes: runningSums(raw.before.bytes)};
const overTime = {end: 1, top: 1, width: 1, at: null};

function drawBeforeAfter() {
  if (!memoryCanvas) return;
  const ink = inks();
  const width = printing ? PRINT_WIDTH : memoryCanvas.clientWidth;
  const fullest = devices.reduce((best, device, i) => (device.peak > devices[best].peak ? i : best), 0);
  const lasts = beforeCurve.time[beforeCurve.time.length - 1];
  const highest = beforeCurve.bytes.reduce((most, bytes) => Math.max(most, bytes), 1);
  const {limit} = devices[fullest];
  const top = Math.max(highest, highestPeak);
  Object.assign(overTime, {end: Math.max(lasts, endTime), width, fullest,
    top: limit !== null && limit <= top * 1.5 ? Math.max(limit, top) : top});
  const ctx = sizeCanvas(memoryCanvas, width, MEMORY_HEIGHT_WHOLE);
  ctx.clearRect(0, 0, width, MEMORY_HEIGHT_WHOLE);
  drawBeforeAfterAxes(ctx, ink);
  drawWholeCurve(ctx, beforeCurve, lasts, ink.muted, ink.shade);
  drawWholeCurve(ctx, curves[fullest], endTime, ink.memory, ink.memoryFill);
  markPeaks(ctx, ink, beforeCurve, curves[fullest]);
  if (limit !== null && limit <= overTime.top) drawLimit(ctx, ink, wholeX(0), width, wholeY(limit));
  if (overTime.at !== null) ctx.fillRect(Math.round(wholeX(overTime.at)), 0, 1, wholeY(0));
}

const wholeLeft = 64;
const wholeX = (time) => wholeLeft + (time / overTime.end) * (overTime.width - wholeLeft - 1);
const wholeY = (bytes) => MEMORY_HEIGHT_WHOLE - 22 - (bytes / overTime.top) * (MEMORY_HEIGHT_WHOLE - 44);

function drawWholeCurve(ctx, curve, end, stroke, fill) {
  traceMemory(ctx, stepsOf(curve, 0, overTime.end, wholeX), wholeX(end), wholeY);
  ctx.strokeStyle = stroke;
  ctx.lineWidth = 1.5;
  ctx.stroke();
  ctx.lineTo(wholeX(end), wholeY(0));
  ctx.lineTo(wholeX(0), wholeY(0));
  ctx.fillStyle = fill;
  ctx.fill();
}

const highestIn = (curve) => curve.bytes.reduce((best, bytes, i) => (bytes > curve.bytes[best] ? i : best), 0);

// The earlier peak is named on its left, the later one on its right, so that near ones do not cover each other.
function markPeaks(ctx, ink, before, after) {
  const [earlier, later] = [highestIn(before), highestIn(after)].map((i, which) => [before, after][which].time[i]);
  markPeak(ctx, ink, before, ink.muted, earlier > later);
  markPeak(ctx, ink, after, ink.memory, later >= earlier);
}

function markPeak(ctx, ink, curve, colour, onRight) {
  const i = highestIn(curve);
  const [x, y] = [wholeX(curve.time[i]), wholeY(curve.bytes[i])];
  ctx.beginPath();
  ctx.arc(x, y, 3.5, 0, 7);
  ctx.fillStyle = colour;
  ctx.fill();
  const label = formatBytes(curve.bytes[i]);
  ctx.font = BOLD_FONT;
  ctx.textBaseline = 'bottom';
  ctx.strokeStyle = ink.surface;
  ctx.lineWidth = 3;
  ctx.fillStyle = ink.text;
  const length = ctx.measureText(label).width;
  const left = Math.max(wholeLeft + 2, Math.min(onRight ? x + 6 : x - 6 - length, overTime.width - length));
  ctx.strokeText(label, left, y - 2);
  ctx.fillText(label, left, y - 2);
}

function drawBeforeAfterAxes(ctx, ink) {
  ctx.font = TEXT_FONT;
  const size = 2 ** Math.floor(Math.log2(overTime.top / 2.9));
  for (let bytes = 0; bytes <= overTime.top; bytes += size) {
    ctx.fillStyle = ink.line;
    ctx.fillRect(wholeLeft, Math.round(wholeY(bytes)), overTime.width - wholeLeft, 1);
    ctx.fillStyle = ink.muted;
    ctx.textBaseline = 'middle';
    const label = roundBytes(bytes);
    ctx.fillText(label, wholeLeft - 8 - ctx.measureText(label).width, wholeY(bytes));
  }
  const step = niceStep(overTime.end / Math.max(2, overTime.width / 120));
  ctx.textBaseline = 'alphabetic';
  for (let time = 0; time <= overTime.end; time += step) {
    const label = formatMoment(time, step);
    ctx.fillText(label, Math.min(wholeX(time), overTime.width - ctx.measureText(label).width), MEMORY_HEIGHT_WHOLE - 6);
  }
}

function bytesAt(curve, time) {
  const i = lowerBound(curve.time, time + 0.5) - 1;
  return i < 0 ? 0 : curve.bytes[i];
}

if (memoryCanvas) {
  memoryCanvas.addEventListener('pointermove', (event) => {
    const share = (pointIn(event, memoryCanvas).x - wholeLeft) / (overTime.width - wholeLeft - 1);
    overTime.at = Math.min(1, Math.max(0, share)) * overTime.end;
    const facts = [['before', formatBytes(bytesAt(beforeCurve, overTime.at))]];
    facts.push(['after', overTime.at > endTime ? 'the step is over' : formatBytes(bytesAt(curves[overTime.fullest], overTime.at))]);
    showTooltip(event.clientX, event.clientY, `memory in use at ${formatTime(overTime.at)}`, facts);
    drawBeforeAfter();
  });
  memoryCanvas.addEventListener('pointerleave', () => {
    overTime.at = null;
    hideTooltip();
    drawBeforeAfter();
  });
}
