// Pointer, wheel and keys.

const wheelHint = document.getElementById('wheel-hint');
let hintTimer = 0;
let drag = null;

function pointIn(event, canvas) {
  const box = canvas.getBoundingClientRect();
  return {x: event.clientX - box.left, y: event.clientY - box.top};
}

function stepUnder(point) {
  const lane = laneAt(point.y + frame.scroll);
  if (!lane || point.x < frame.gutter || point.y < AXIS_HEIGHT) return {lane: null, step: -1};
  return {lane, step: lane.steps ? stepInLane(lane, timeAt(point.x), nsPerPixel() * 2) : -1};
}

function hover(event) {
  const point = pointIn(event, timeline);
  const {lane, step} = stepUnder(point);
  view.hovered = step;
  view.hoveredTime = point.x >= frame.gutter && point.x <= frame.gutter + frame.plot ? timeAt(point.x) : null;
  timeline.classList.toggle('over-slice', step >= 0);
  if (step >= 0) {
    const place = lane.steps.indexOf(step);
    const thin = (lane.finishes[place] - lane.starts[place]) / nsPerPixel() < 1.2;
    const note = thin ? neighboursNote(lane, timeAt(point.x)) : '';
    const title = lane === hostLane ? `launch of ${nameOf(step)}` : nameOf(step);
    showTooltip(event.clientX, event.clientY, title, factsOf(step), note);
  } else if (lane && lane.type === 'memory') {
    showMemoryTooltip(event, lane.device);
  } else {
    hideTooltip();
  }
  requestDraw();
}

// How many more steps stand within the pointer's reach, where slices are thinner than a pixel.
function neighboursNote(lane, time) {
  const slack = nsPerPixel() * 2;
  const count = lowerBound(lane.starts, time + slack) - lowerBound(lane.finishes, time - slack);
  return count > 1 ? `and ${formatCount(count - 1)} more within two pixels: zoom in` : '';
}

function showMemoryTooltip(event, device) {
  const curve = curves[device];
  let i = lowerBound(curve.time, view.hoveredTime + nsPerPixel() / 2) - 1;
  const bytes = i < 0 ? 0 : curve.bytes[i];
  const {limit, peak, name} = devices[device];
  const facts = [['at', formatTime(view.hoveredTime)], ['in use', formatBytes(bytes)], ['peak', formatBytes(peak)]];
  if (limit !== null) facts.push(['limit', formatBytes(limit)]);
  showTooltip(event.clientX, event.clientY, `memory of ${name}`, facts);
}

function unhover() {
  view.hovered = -1;
  view.hoveredTime = null;
  hideTooltip();
  requestDraw();
}

timeline.addEventListener('pointerdown', (event) => {
  if (event.button !== 0) return;
  const point = pointIn(event, timeline);
  timeline.setPointerCapture(event.pointerId);
  drag = {start: point, moved: false, from: view.from, scroll: viewport.scrollTop, brushes: event.shiftKey};
});

timeline.addEventListener('pointermove', (event) => {
  if (pinch) return undefined;
  if (!drag) return hover(event);
  const point = pointIn(event, timeline);
  const [dx, dy] = [point.x - drag.start.x, point.y - drag.start.y];
  drag.moved = drag.moved || Math.hypot(dx, dy) > 4;
  if (!drag.moved) return undefined;
  unhover();
  timeline.classList.add('dragging');
  if (drag.brushes) {
    view.brush = [timeAt(drag.start.x), timeAt(point.x)];
    return requestDraw();
  }
  if (event.pointerType !== 'touch') viewport.scrollTop = drag.scroll - dy;
  const from = drag.from - dx * nsPerPixel();
  return showSpan(from, from + (view.to - view.from));
});

timeline.addEventListener('pointerup', (event) => {
  if (!drag) return;
  const ended = drag;
  drag = null;
  timeline.classList.remove('dragging');
  if (view.brush) {
    const [from, to] = [Math.min(...view.brush), Math.max(...view.brush)];
    view.brush = null;
    showSpan(from, to);
  } else if (!ended.moved) {
    pin(stepUnder(pointIn(event, timeline)).step);
  }
});

timeline.addEventListener('pointercancel', () => {
  drag = null;
  view.brush = null;
  requestDraw();
});
timeline.addEventListener('pointerleave', unhover);
timeline.addEventListener('dblclick', (event) => {
  const {step} = stepUnder(pointIn(event, timeline));
  if (step >= 0) zoomToStep(step);
});
viewport.addEventListener('scroll', requestDraw);

// The wheel scrolls the page until the timeline has the focus, so that nobody is caught in it.
viewport.addEventListener('wheel', (event) => {
  const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
  if (sideways || event.shiftKey) {
    event.preventDefault();
    moveBy((event.deltaX + (sideways ? 0 : event.deltaY)) * nsPerPixel());
  } else if (event.ctrlKey || event.metaKey || document.activeElement === viewport) {
    event.preventDefault();
    zoomAround(timeAt(Math.max(frame.gutter, pointIn(event, timeline).x)), Math.exp(event.deltaY * 0.0022));
  } else {
    wheelHint.hidden = false;
    clearTimeout(hintTimer);
    hintTimer = setTimeout(() => { wheelHint.hidden = true; }, 1400);
  }
}, {passive: false});

// In the overview a drag inside the window moves it, a drag elsewhere draws a new one.
let overviewDrag = null;

overview.addEventListener('pointerdown', (event) => {
  const time = overviewTime(pointIn(event, overview).x);
  const inside = time > view.from && time < view.to && view.to - view.from < endTime;
  overview.setPointerCapture(event.pointerId);
  overviewDrag = {time, offset: inside ? time - view.from : null};
});
overview.addEventListener('pointermove', (event) => {
  if (!overviewDrag) return;
  const time = overviewTime(pointIn(event, overview).x);
  const {offset} = overviewDrag;
  if (offset !== null) showSpan(time - offset, time - offset + (view.to - view.from));
  else if (Math.abs(time - overviewDrag.time) > endTime / 400) {
    showSpan(Math.min(time, overviewDrag.time), Math.max(time, overviewDrag.time));
  }
});
overview.addEventListener('pointerup', () => { overviewDrag = null; });

const timelineKeys = {
  ArrowLeft: () => moveBy((view.from - view.to) * 0.15),
  ArrowRight: () => moveBy((view.to - view.from) * 0.15),
  ArrowUp: () => viewport.scrollBy(0, -60),
  ArrowDown: () => viewport.scrollBy(0, 60),
};
const pageKeys = {
  '+': () => zoomCentre(0.6),
  '=': () => zoomCentre(0.6),
  '-': () => zoomCentre(1 / 0.6),
  '0': showAll,
  '/': () => searchBox.focus(),
  'n': () => goToMatch(1),
  'N': () => goToMatch(-1),
  ',': () => goAlongLane(-1),
  '.': () => goAlongLane(1),
  'w': goToWaitedFor,
  'f': () => view.selected >= 0 && zoomToStep(view.selected),
  'c': () => setToggle('show-critical', !view.showCritical),
  't': nextTheme,
  '?': () => help.showModal(),
  'Escape': () => { clearSearch(); pin(-1); },
};

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  const typing = event.target.closest('input[type=search], select');
  if (typing) {
    if (event.key === 'Enter') goToMatch(event.shiftKey ? -1 : 1);
    if (event.key === 'Escape') { clearSearch(); viewport.focus(); }
    return;
  }
  const action = (document.activeElement === viewport && timelineKeys[event.key]) || pageKeys[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});
