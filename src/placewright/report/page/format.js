// Numbers as people read them: three significant digits, one unit.

const TIME_UNITS = [[1, 'ns'], [1e3, 'us'], [1e6, 'ms'], [1e9, 's']];
const BYTE_UNITS = [[1, 'B'], [2 ** 10, 'KiB'], [2 ** 20, 'MiB'], [2 ** 30, 'GiB'], [2 ** 40, 'TiB'], [2 ** 50, 'PiB']];

function withUnit(value, units) {
  if (value < 999.5) return `${Math.round(value)} ${units[0][1]}`;
  const [factor, name] = units.slice(1).find(([size]) => value / size < 999.5) || units[units.length - 1];
  const scaled = value / factor;
  const decimals = scaled >= 99.95 ? 0 : scaled >= 9.995 ? 1 : scaled >= 0.9995 ? 2 : 3;
  return `${scaled.toFixed(decimals)} ${name}`;
}

const formatTime = (ns) => withUnit(ns, TIME_UNITS);
const formatBytes = (bytes) => withUnit(bytes, BYTE_UNITS);
// A round size without a fraction of zeros: 2 GiB.
const roundBytes = (bytes) => formatBytes(bytes).replace(/\.0+ /, ' ');
const formatCount = (count) => count.toLocaleString('en');
const formatShare = (share) => `${(share * 100).toFixed(1)}%`;

// A moment, with as many digits as ticks `step` apart need.
function formatMoment(ns, step) {
  const unit = TIME_UNITS.filter(([size]) => size <= Math.max(step, 1)).pop();
  const larger = TIME_UNITS[TIME_UNITS.indexOf(unit) + 1];
  const [size, name] = larger && (step * 10 >= larger[0] || ns >= larger[0] * 10) ? larger : unit;
  const decimals = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  return `${(ns / size).toFixed(decimals)} ${name}`;
}

// A span of time, its ends told apart to a hundredth of its length, and the length itself.
function formatSpan(from, to) {
  const step = Math.max(1, niceStep((to - from) / 100 || 1));
  return `${formatMoment(from, step)} – ${formatMoment(to, step)} (${formatTime(to - from)})`;
}

// The smallest of 1, 2, 5 times a power of ten that is at least `least`.
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least * 0.999999);
}

// Cut in the middle, for names that differ in their last part.
function cutInside(text, most) {
  if (text.length <= most) return text;
  const last = Math.floor(most / 2);
  return `${text.slice(0, most - last - 1)}…${text.slice(-last)}`;
}

function shortened(text, most) {
  return text.length <= most ? text : most < 2 ? '' : `${text.slice(0, most - 1)}…`;
}
