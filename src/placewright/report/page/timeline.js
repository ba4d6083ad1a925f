// Drawing the lanes that are on the screen, for the span on show; slices thinner than a pixel are drawn together.

const viewport = document.getElementById('viewport');
const timeline = document.getElementById('timeline');
const overview = document.getElementById('overview');
const extent = document.getElementById('extent');
const TEXT_FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const SMALL_FONT = `10px ${TEXT_FONT.slice(5)}`;
const BOLD_FONT = `600 12px ${TEXT_FONT.slice(5)}`;
const LETTER_WIDTH = 6;
const PRINT_WIDTH = 760;
const PRINT_HEIGHT = 640;

// Size of the canvas in CSS pixels; plot is the part right of the labels.
const frame = {width: 0, height: 0, gutter: 150, plot: 0, scroll: 0, scale: 1};

const xOf = (time) => frame.gutter + ((time - view.from) / (view.to - view.from)) * frame.plot;
const timeAt = (x) => view.from + ((x - frame.gutter) / frame.plot) * (view.to - view.from);
const nsPerPixel = () => (view.to - view.from) / frame.plot;

function sizeCanvas(canvas, width, height) {
  const scale = printing ? 2 : window.devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = printing ? 'auto' : `${height}px`;
  canvas.getContext('2d').setTransform(scale, 0, 0, scale, 0, 0);
  return canvas.getContext('2d');
}

function sizeTimeline() {
  const highest = printing ? PRINT_HEIGHT : Math.min(window.innerHeight * 0.76, 820);
  frame.width = printing ? PRINT_WIDTH : viewport.clientWidth;
  frame.height = Math.round(Math.min(lanesHeight, highest));
  frame.gutter = frame.width < 640 ? 84 : printing ? 120 : 150;
  frame.plot = Math.max(40, frame.width - frame.gutter - 12);
  sizeCanvas(timeline, frame.width, frame.height);
  extent.style.height = `${Math.max(0, lanesHeight - frame.height)}px`;
  sizeCanvas(overview, overview.clientWidth, 40);
}

function drawTimeline() {
  const ink = inks();
  const ctx = timeline.getContext('2d');
  frame.scroll = printing ? 0 : viewport.scrollTop;
  ctx.clearRect(0, 0, frame.width, frame.height);
  ctx.save();
  ctx.translate(0, -frame.scroll);
  const visible = lanes.filter((lane) => lane.y + lane.height > frame.scroll && lane.y < frame.scroll + frame.height);
  drawGrid(ctx, ink);
  ctx.save();
  ctx.beginPath();
  ctx.rect(frame.gutter, frame.scroll, frame.plot, frame.height);
  ctx.clip();
  for (const lane of visible) (lane.type === 'memory' ? drawMemoryLane : drawStepLane)(ctx, ink, lane);
  if (view.showCritical) drawCriticalPath(ctx, ink);
  drawPicked(ctx, ink);
  ctx.restore();
  for (const lane of visible) drawLabel(ctx, ink, lane);
  ctx.restore();
  drawAxis(ctx, ink);
  drawBrush(ctx, ink);
  drawOverview(ink);
  publishView();
}

function publishView() {
  viewport.dataset.from = Math.round(view.from);
  viewport.dataset.to = Math.round(view.to);
  viewport.setAttribute('aria-label',
    `Timeline, ${formatTime(view.from)} to ${formatTime(view.to)} of ${formatTime(endTime)}`);
}

const tickStep = () => niceStep(((view.to - view.from) / Math.max(2, frame.plot / 110)));

function drawGrid(ctx, ink) {
  const step = tickStep();
  ctx.fillStyle = ink.line;
  for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
    ctx.fillRect(Math.round(xOf(time)), frame.scroll, 1, frame.height);
  }
}

function drawAxis(ctx, ink) {
  const step = tickStep();
  ctx.fillStyle = ink.sunken;
  ctx.fillRect(0, 0, frame.width, AXIS_HEIGHT);
  ctx.fillStyle = ink.line;
  ctx.fillRect(0, AXIS_HEIGHT - 1, frame.width, 1);
  ctx.font = TEXT_FONT;
  ctx.fillStyle = ink.muted;
  ctx.textBaseline = 'middle';
  for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
    const label = formatMoment(time, step);
    const x = xOf(time);
    const width = ctx.measureText(label).width;
    if (x + width + 4 < frame.width) ctx.fillText(label, x + 4, AXIS_HEIGHT / 2);
    ctx.fillRect(Math.round(x), 6, 1, AXIS_HEIGHT - 6);
  }
}

function colourOfStep(step, ink) {
  return isOp(step) ? colouring.classes[colouring.classOf[step]].colour : ink.transfer;
}

const isDimmed = (step) => search.active && !search.matches[step];

function drawStepLane(ctx, ink, lane) {
  ctx.fillStyle = ink.sunken;
  ctx.fillRect(frame.gutter, lane.y, frame.plot, lane.height);
  const bundle = {pixel: -1, covered: 0, widest: 0, step: -1, matched: false};
  const first = lowerBound(lane.finishes, view.from);
  for (let i = first; i < lane.steps.length && lane.starts[i] <= view.to; i++) {
    const left = xOf(lane.starts[i]);
    const width = xOf(lane.finishes[i]) - left;
    if (width < 1.2) {
      if (bundle.pixel !== Math.floor(left)) flushBundle(ctx, ink, lane, bundle, Math.floor(left));
      addToBundle(bundle, lane.steps[i], width);
    } else {
      drawSlice(ctx, ink, lane, lane.steps[i], left, width);
    }
  }
  flushBundle(ctx, ink, lane, bundle, -1);
  ctx.globalAlpha = 1;
}

function addToBundle(bundle, step, width) {
  const matched = search.active && !!search.matches[step];
  bundle.covered += width;
  if (bundle.step < 0 || (matched && !bundle.matched) || (matched === bundle.matched && width > bundle.widest)) {
    bundle.step = step;
    bundle.widest = width;
  }
  bundle.matched = bundle.matched || matched;
}

// One pixel column for all thin slices in it, as opaque as they fill it, in the colour of the widest.
function flushBundle(ctx, ink, lane, bundle, nextPixel) {
  if (bundle.step >= 0) {
    const filled = Math.min(1, Math.max(0.3, bundle.covered));
    ctx.globalAlpha = isDimmed(bundle.step) ? 0.15 * filled : bundle.matched ? 1 : filled;
    ctx.fillStyle = colourOfStep(bundle.step, ink);
    ctx.fillRect(bundle.pixel, lane.y, bundle.matched ? 1.5 : 1, lane.height);
  }
  Object.assign(bundle, {pixel: nextPixel, covered: 0, widest: 0, step: -1, matched: false});
}

function drawSlice(ctx, ink, lane, step, left, width) {
  const from = Math.max(left, frame.gutter - 2);
  const to = Math.min(left + width, frame.gutter + frame.plot + 2);
  const gap = width > 4 ? 0.75 : width > 2 ? 0.3 : 0;
  ctx.globalAlpha = isDimmed(step) ? 0.15 : 1;
  ctx.fillStyle = colourOfStep(step, ink);
  ctx.fillRect(from, lane.y, to - from - gap, lane.height);
  const letters = Math.floor((to - from - 10) / LETTER_WIDTH);
  if (letters < 3 || lane.height < 14) return;
  ctx.font = TEXT_FONT;
  ctx.textBaseline = 'middle';
  ctx.fillStyle = isOp(step) ? colouring.classes[colouring.classOf[step]].text : '#101418';
  if (isDimmed(step)) ctx.fillStyle = ink.text;
  ctx.fillText(shortened(nameOf(step), letters), from + 5, lane.y + lane.height / 2 + 0.5);
}

function drawLabel(ctx, ink, lane) {
  const host = {name: 'launches', busy: launchEnds[launchEnds.length - 1]};
  const device = lane === hostLane ? host : devices[lane.device];
  const [room, small] = [frame.gutter - 16, frame.gutter < 100];
  ctx.textBaseline = 'middle';
  ctx.font = TEXT_FONT;
  ctx.fillStyle = ink.muted;
  const write = (text, x, y) => ctx.fillText(shortened(text, Math.floor((room - x + 10) / LETTER_WIDTH)), x, y);
  if (lane.type === 'measured') {
    write('measured', small ? 10 : 22, lane.y + lane.height / 2);
  } else if (lane.type === 'compute' || lane === hostLane) {
    const load = `${Math.round((device.busy / plannedEnd) * 100)}%`;
    if (!small) ctx.fillText(load, frame.gutter - 10 - ctx.measureText(load).width, lane.y + lane.height / 2);
    ctx.font = BOLD_FONT;
    ctx.fillStyle = ink.text;
    ctx.fillText(shortened(device.name, Math.floor((room - (small ? 0 : 34)) / 7)), 10, lane.y + lane.height / 2);
  } else if (lane.type === 'link') {
    write(`→ ${devices[lane.destination].name}`, small ? 10 : 22, lane.y + lane.height / 2);
  } else {
    drawMemoryLabel(ctx, ink, lane, write, small);
  }
}
