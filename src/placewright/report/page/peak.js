// What is alive at a device's peak: one rectangle per tensor, as wide as it lives and as high as it is big.

const peakCanvas = document.getElementById('peak');
const peakList = document.getElementById('peak-list');
const PEAK_HEIGHT = 400;
const PEAK_TOP = 18;
const MOST_RESIDENT_SHARE = 0.45;
const CUT_SHARE = 0.2;
const MOST_LISTED = 11;
const peakView = {device: 0, blocks: [], hovered: -1};

function chooseFullestDevice() {
  const over = (device) => (device.limit === null ? 0 : Math.max(0, device.peak - device.limit));
  const order = devices.map((_, i) => i)
    .sort((a, b) => over(devices[b]) - over(devices[a]) || devices[b].peak - devices[a].peak || a - b);
  showPeakOf(order[0]);
}

// Blocks from the bottom: residents, then tensors in order of allocation, then the sum of the smallest.
function blocksOf(device) {
  const {tensors, residents, rest} = raw.peaks[device];
  const blocks = [];
  if (residents.bytes) {
    const name = `parameters and constants (${formatCount(residents.count)})`;
    blocks.push({name, kind: 'resident', op: -1, bytes: residents.bytes, from: 0, to: endTime});
  }
  tensors.name.forEach((name, i) => blocks.push({name, kind: tensors.kind.table[tensors.kind.at[i]], op: tensors.op[i],
    bytes: tensors.bytes[i], from: tensors.from[i], to: tensors.to[i]}));
  if (rest.count) {
    const {time} = raw.peaks[device];
    blocks.push({name: `${formatCount(rest.count)} smaller tensors`, kind: 'rest', op: -1, bytes: rest.bytes,
      from: time, to: time});
  }
  let below = 0;
  for (const block of blocks) {
    block.below = below;
    below += block.bytes;
  }
  return blocks;
}

function showPeakOf(device) {
  peakView.device = device;
  peakView.blocks = blocksOf(device);
  peakView.hovered = -1;
  const {peak, limit, name} = devices[device];
  const tensors = raw.peaks[device].tensors.name.length + raw.peaks[device].rest.count;
  document.getElementById('peak-summary').textContent =
    `${name} is fullest at ${formatTime(raw.peaks[device].time)}: ${formatBytes(peak)}` +
    `${limit === null ? '' : ` of ${formatBytes(limit)}`}, in ${formatCount(tensors)} ${tensors === 1 ? 'tensor' : 'tensors'}` +
    ` beside ${formatBytes(raw.peaks[device].residents.bytes)} of parameters and constants.` +
    ' Width is lifetime, height is size.';
  for (const control of document.querySelectorAll('[data-peak-device]')) {
    control.checked = Number(control.dataset.peakDevice) === device;
  }
  const chooser = document.querySelector('#peak-devices select');
  if (chooser) chooser.value = device;
  listPeak();
  drawPeak();
}

const peakColour = (block, ink) => (block.op >= 0 ? colourOfStep(block.op, ink) : ink.resident);
const peakWidth = () => (printing ? 540 : peakCanvas.clientWidth);
const peakTotal = () => Math.max(1, devices[peakView.device].peak);
const peakX = (time) => 1 + (time / endTime) * (peakWidth() - 2);
const peakFloor = PEAK_HEIGHT - 22;

// Height of a sum of bytes from the bottom. Residents that would leave little room for the rest are drawn lower.
function peakY(bytes) {
  const [room, residents, total] = [peakFloor - PEAK_TOP, raw.peaks[peakView.device].residents.bytes, peakTotal()];
  if (!residentsAreCut()) return peakFloor - (bytes / total) * room;
  const cut = room * CUT_SHARE;
  if (bytes <= residents) return peakFloor - (bytes / residents) * cut;
  return peakFloor - cut - ((bytes - residents) / (total - residents)) * (room - cut);
}

function residentsAreCut() {
  const residents = raw.peaks[peakView.device].residents.bytes;
  return residents < peakTotal() && residents > peakTotal() * MOST_RESIDENT_SHARE;
}

function drawPeak() {
  const ink = inks();
  const ctx = sizeCanvas(peakCanvas, peakWidth(), PEAK_HEIGHT);
  ctx.clearRect(0, 0, peakWidth(), PEAK_HEIGHT);
  drawPeakAxis(ctx, ink);
  peakView.blocks.forEach((block, i) => drawBlock(ctx, ink, block, i === peakView.hovered));
  drawPeakLimit(ctx, ink);
  const x = Math.round(peakX(raw.peaks[peakView.device].time));
  ctx.fillStyle = ink.text;
  ctx.fillRect(x, 0, 1, peakFloor);
  ctx.font = TEXT_FONT;
  ctx.textBaseline = 'top';
  const width = ctx.measureText('peak').width;
  ctx.fillText('peak', x + 6 + width < peakWidth() ? x + 5 : x - 5 - width, 0);
}

// Where the device is full, if it is.
function drawPeakLimit(ctx, ink) {
  const {limit, peak} = devices[peakView.device];
  if (limit === null || limit > peak) return;
  const y = peakY(limit);
  drawLimit(ctx, ink, 0, peakWidth(), y);
  ctx.font = TEXT_FONT;
  ctx.textBaseline = 'bottom';
  ctx.strokeStyle = ink.surface;
  ctx.lineWidth = 3;
  ctx.fillStyle = ink.limit;
  const label = `limit ${formatBytes(limit)}`;
  const left = peakWidth() - ctx.measureText(label).width - 4;
  ctx.strokeText(label, left, y - 2);
  ctx.fillText(label, left, y - 2);
}

function drawPeakAxis(ctx, ink) {
  const width = peakWidth();
  const step = niceStep(endTime / Math.max(2, width / 120));
  ctx.fillStyle = ink.line;
  ctx.fillRect(0, peakFloor, width, 1);
  ctx.font = TEXT_FONT;
  ctx.textBaseline = 'alphabetic';
  for (let time = 0; time <= endTime; time += step) {
    ctx.fillStyle = ink.line;
    ctx.fillRect(Math.round(peakX(time)), 0, 1, PEAK_HEIGHT - 16);
    ctx.fillStyle = ink.muted;
    const label = formatMoment(time, step);
    const at = Math.min(peakX(time) + 3, width - ctx.measureText(label).width - 1);
    ctx.fillText(label, at, PEAK_HEIGHT - 6);
  }
}

function drawBlock(ctx, ink, block, hovered) {
  const left = peakX(block.from);
  const width = Math.max(1, peakX(block.to) - left);
  const top = peakY(block.below + block.bytes);
  const height = peakY(block.below) - top;
  ctx.fillStyle = peakColour(block, ink);
  ctx.globalAlpha = block.kind === 'copy' ? 0.6 : 1;
  ctx.fillRect(left, top, width, Math.max(0.4, height - (height > 3 ? 0.6 : 0)));
  ctx.globalAlpha = 1;
  if (block.kind === 'resident' && residentsAreCut()) drawCut(ctx, ink, (top + peakFloor) / 2 + 18);
  if (hovered) {
    ctx.strokeStyle = ink.selected;
    ctx.lineWidth = 1.5;
    ctx.strokeRect(left, top, width, Math.max(1, height));
  }
  const letters = Math.floor((width - 10) / LETTER_WIDTH);
  if (height < 13 || letters < 4) return;
  ctx.font = TEXT_FONT;
  ctx.textBaseline = 'middle';
  ctx.fillStyle = block.op >= 0 && block.kind !== 'copy' ? colouring.classes[colouring.classOf[block.op]].text : ink.text;
  const scale = block.kind === 'resident' && residentsAreCut() ? ', not to scale' : '';
  ctx.fillText(shortened(`${block.name}  ${formatBytes(block.bytes)}${scale}`, letters), left + 5, top + height / 2);
}

// A zigzag across a block that is higher than drawn.
function drawCut(ctx, ink, y) {
  ctx.strokeStyle = ink.surface;
  ctx.lineWidth = 3;
  ctx.beginPath();
  for (let x = 0; x <= peakWidth() + 8; x += 8) ctx.lineTo(x, y + ((x / 8) % 2 ? 4 : -4));
  ctx.stroke();
}

function listPeak() {
  const ink = inks();
  const residents = raw.peaks[peakView.device].residents;
  const biggest = [...peakView.blocks].sort((a, b) => b.bytes - a.bytes).slice(0, MOST_LISTED);
  const rows = biggest.map((block) => peakRow(block, ink));
  const list = make('ol', {}, ...rows);
  const inside = residents.biggest.slice(0, 5);
  const residentRows = inside.map(([name, bytes]) => peakRow({name, bytes, op: -1, kind: 'resident'}, ink));
  const heading = make('p', {class: 'muted note'}, 'Biggest parameters and constants');
  peakList.replaceChildren(list, ...(inside.length ? [heading, make('ol', {}, ...residentRows)] : []));
}

function peakRow(block, ink) {
  const swatch = make('span', {class: 'swatch'});
  swatch.style.background = peakColour(block, ink);
  const label = block.kind === 'copy' ? `${block.name} (copy)` : block.kind === 'workspace' ? `${block.name} (workspace)` : block.name;
  const name = block.op >= 0
    ? make('button', {type: 'button', class: 'step', title: label, onclick: () => goToFromTable(block.op)}, cutInside(label, 36))
    : make('span', {title: label, class: block.name.startsWith('parameters and') ? 'plain' : ''}, cutInside(label, 36));
  return make('li', {}, swatch, make('span', {class: 'what'}, name), make('span', {}, formatBytes(block.bytes)));
}

peakCanvas.addEventListener('pointermove', (event) => {
  const {x, y} = pointIn(event, peakCanvas);
  const at = peakView.blocks.findIndex((block) => y <= peakY(block.below) && y > peakY(block.below + block.bytes)
    && x >= peakX(block.from) - 2 && x <= peakX(block.to) + 2);
  if (at !== peakView.hovered) {
    peakView.hovered = at;
    drawPeak();
  }
  if (at < 0) return hideTooltip();
  const block = peakView.blocks[at];
  const facts = [['size', formatBytes(block.bytes)], ['what', block.kind]];
  if (block.op >= 0) facts.push(['op', nameOf(block.op)], ['kind', kindOf(block.op)]);
  if (block.op >= 0 && moduleOf(block.op)) facts.push(['module', moduleOf(block.op)]);
  if (block.kind !== 'rest') facts.push(['lives', formatSpan(block.from, block.to)]);
  return showTooltip(event.clientX, event.clientY, block.name, facts);
});
peakCanvas.addEventListener('pointerleave', () => {
  peakView.hovered = -1;
  hideTooltip();
  drawPeak();
});
peakCanvas.addEventListener('click', () => {
  const block = peakView.blocks[peakView.hovered];
  if (block && block.op >= 0) goToFromTable(block.op);
});

// Few devices get buttons, many a list to choose from.
function makePeakChooser() {
  const place = document.getElementById('peak-devices');
  if (devices.length < 2) return;
  if (devices.length > 8) {
    const options = devices.map((device, i) => make('option', {value: i}, `${device.name}: ${formatBytes(device.peak)}`));
    const chooser = make('select', {'aria-label': 'Device', onchange: (event) => showPeakOf(Number(event.target.value))},
      ...options);
    place.append(chooser);
    return;
  }
  const choices = devices.map((device, i) => make('label', {},
    make('input', {type: 'radio', name: 'peak-device', 'data-peak-device': i, onchange: () => showPeakOf(i)}),
    make('span', {}, `${device.name} ${formatBytes(device.peak)}`)));
  place.append(make('fieldset', {class: 'segmented'}, make('legend', {class: 'hidden'}, 'Device'), ...choices));
}
