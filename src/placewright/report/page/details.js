// What is told about a step: in the tooltip while the pointer is on it, and in the panel once it is pinned.

const tooltip = document.getElementById('tooltip');
const details = document.getElementById('details');

// [label, value] rows; empty ones are left out.
function factsOf(step) {
  const times = formatSpan(startOf[step], finishOf[step]);
  const op = producerOf(step);
  const facts = isOp(step)
    ? [['kind', kindOf(step)], ['module', moduleOf(step)], ['phase', phaseOf(step)], ['source', sourceOf(step)],
      ['on', whereOf(step)], ['time', times], ['outputs', formatBytes(bytesOf[step])]]
    : [['transfer', whereOf(step)], ['size', formatBytes(bytesOf[step])], ['time', times],
      ['made by', op < 0 ? '' : nameOf(op)], ['module', op < 0 ? '' : moduleOf(op)]];
  if (ranFrom[step] >= 0) facts.push(['measured', formatSpan(ranFrom[step], ranTo[step])]);
  if (launchedAt[step] >= 0) facts.push(['launched at', formatTime(launchedAt[step])]);
  if (isCritical[step]) facts.push(['critical path', 'yes']);
  return facts.filter(([, value]) => value);
}

const factList = (facts) =>
  make('dl', {}, ...facts.flatMap(([label, value]) => [make('dt', {}, label), make('dd', {}, value)]));
const factRow = (facts) =>
  make('dl', {}, ...facts.map(([label, value]) => make('div', {}, make('dt', {}, label), make('dd', {}, value))));

function showTooltip(x, y, title, facts, note = '') {
  tooltip.replaceChildren(make('div', {class: 'op-name'}, title), factList(facts));
  if (note) tooltip.append(make('div', {class: 'muted'}, note));
  tooltip.hidden = false;
  const {width, height} = tooltip.getBoundingClientRect();
  tooltip.style.left = `${Math.max(6, x + 16 + width > innerWidth - 6 ? x - 16 - width : x + 16)}px`;
  tooltip.style.top = `${Math.max(6, y + 18 + height > innerHeight - 6 ? y - 12 - height : y + 18)}px`;
}

function hideTooltip() {
  tooltip.hidden = true;
}

function pin(step) {
  view.selected = step;
  details.replaceChildren(...(step < 0 ? [unpinnedText()] : pinnedContent(step)));
  requestDraw();
}

const unpinnedText = () => make('span', {class: 'muted'}, 'Nothing pinned. ',
  make('span', {class: 'for-mouse'}, 'Click a slice, or press . to step through.'),
  make('span', {class: 'for-touch'}, 'Tap a slice.'));

function pinnedContent(step) {
  const before = stepAtPosition.get(waitsFor[step]);
  const nobody = waitsFor[step] === WAITS_FOR_LAUNCH ? 'Waited for its launch' : 'Nothing to wait for';
  const waited = before === undefined ? nobody : `Waited for ${shortened(nameOf(before), 48)}`;
  const back = make('button', {type: 'button', onclick: () => goToWaitedFor()}, waited);
  back.disabled = before === undefined;
  const zoom = make('button', {type: 'button', onclick: () => zoomToStep(step)}, 'Zoom to it');
  const head = make('div', {class: 'head'},
    make('span', {class: 'op-name'}, nameOf(step)), make('span', {class: 'buttons'}, back, zoom));
  return [head, factRow([...factsOf(step), ['place in the order', formatCount(positionOf[step])]])];
}

// Pins a step and brings it on the screen, in time and among the lanes.
function goTo(step) {
  if (!isOp(step) && laneOfStep[step] < 0) setToggle('show-links', true);
  pin(step);
  bringIntoSpan(step);
  const lane = lanes[laneOfStep[step]];
  if (!lane) return;
  const top = viewport.scrollTop;
  if (lane.y - AXIS_HEIGHT < top) viewport.scrollTop = lane.y - AXIS_HEIGHT - 8;
  else if (lane.y + lane.height > top + frame.height) viewport.scrollTop = lane.y + lane.height - frame.height + 8;
}

function goToWaitedFor() {
  const before = view.selected < 0 ? undefined : stepAtPosition.get(waitsFor[view.selected]);
  if (before !== undefined) goTo(before);
}

// The step `offset` places further on the pinned step's lane; without a pin the first one on show.
function goAlongLane(offset) {
  if (view.selected < 0) {
    const lane = lanes.find((each) => each !== hostLane);
    return goTo(lane.steps[Math.min(lowerBound(lane.finishes, view.from), lane.steps.length - 1)]);
  }
  const {steps} = lanes[laneOfStep[view.selected]];
  const next = steps.indexOf(view.selected) + offset;
  return next >= 0 && next < steps.length ? goTo(steps[next]) : undefined;
}
