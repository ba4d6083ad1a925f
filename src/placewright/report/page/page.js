// The page around the charts: legend, toggles, printing; and the first drawing.

function drawLegend() {
  const total = colouring.classes.reduce((sum, entry) => sum + entry.time, 0) || 1;
  const entries = [...colouring.classes].sort((a, b) => b.time - a.time);
  const scaled = colouring.by === 'module' && entries.length > DISTINCT.length + 1;
  const shown = scaled ? sampled(colouring.classes, 9) : entries.slice(0, 12);
  const items = shown.map((entry) => legendItem(entry.colour, `${entry.label} `));
  items.forEach((item, i) => item.append(make('b', {}, formatShare(shown[i].time / total))));
  if (entries.length > shown.length) {
    items.push(make('li', {}, `${formatCount(entries.length)} in all${scaled ? ', in order of appearance' : ''}`));
  }
  if (raw.transfers.name.length) items.push(legendItem(inks().transfer, 'transfer'));
  if (view.showCritical) items.push(legendItem(inks().critical, 'critical path', 'strip'));
  if (view.showCritical) items[items.length - 1].append(make('span', {id: 'crossings-note'}));
  document.getElementById('legend').replaceChildren(...items);
  noteCrossings();
}

function legendItem(colour, label, shape = '') {
  const swatch = make('span', {class: `swatch ${shape}`});
  swatch.style.background = colour;
  return make('li', {}, swatch, label);
}

const sampled = (list, count) =>
  Array.from({length: count}, (_, i) => list[Math.round((i * (list.length - 1)) / (count - 1))]);

function redrawAll() {
  layOutLanes();
  sizeTimeline();
  drawTimeline();
  drawLegend();
  listPeak();
  drawPeak();
  drawBeforeAfter();
  markOverflows();
}

function setToggle(id, on) {
  const box = document.getElementById(id);
  box.checked = on;
  box.dispatchEvent(new Event('change'));
}

for (const [id, field] of [['show-critical', 'showCritical'], ['show-links', 'showLinks'], ['show-memory', 'showMemory']]) {
  const box = document.getElementById(id);
  box.checked = view[field];
  box.addEventListener('change', () => {
    view[field] = box.checked;
    redrawAll();
  });
}
for (const box of document.querySelectorAll('#colour-by input')) {
  box.addEventListener('change', () => {
    colourBy(box.value);
    redrawAll();
  });
}
document.getElementById('zoom-in').addEventListener('click', () => zoomCentre(0.6));
document.getElementById('zoom-out').addEventListener('click', () => zoomCentre(1 / 0.6));
document.getElementById('zoom-all').addEventListener('click', showAll);
searchBox.addEventListener('input', () => highlight(searchBox.value));
systemIsDark.addEventListener('change', redrawAll);

// A step named in a table is shown in the timeline.
function goToFromTable(step) {
  goTo(step);
  document.getElementById('timeline-heading').scrollIntoView({block: 'start', behavior: 'smooth'});
}
for (const button of document.querySelectorAll('button[data-position]')) {
  button.addEventListener('click', () => goToFromTable(stepAtPosition.get(Number(button.dataset.position))));
}

// On paper: light, the whole step, at the paper's width.
const whenShown = {from: 0, to: endTime};
function startPrinting() {
  if (printing) return;
  Object.assign(whenShown, {from: view.from, to: view.to});
  printing = true;
  Object.assign(view, {from: 0, to: endTime, hovered: -1, hoveredTime: null});
  redrawAll();
}
function endPrinting() {
  if (!printing) return;
  printing = false;
  Object.assign(view, whenShown);
  redrawAll();
}
addEventListener('beforeprint', startPrinting);
addEventListener('afterprint', endPrinting);
matchMedia('print').addEventListener('change', (event) => (event.matches ? startPrinting() : endPrinting()));

colourBy('kind');
makePeakChooser();
chooseFullestDevice();
pin(-1);
showTheme();
new ResizeObserver(redrawAll).observe(viewport);
