// Two fingers on the timeline: their distance is the zoom, their middle the place that stays.

const fingers = new Map();
let pinch = null;

const fingerSpan = () => {
  const [a, b] = [...fingers.values()];
  return {distance: Math.max(12, Math.abs(a.x - b.x)), middle: (a.x + b.x) / 2};
};

// After the listeners of input.js: the second finger ends the drag that it began.
timeline.addEventListener('pointerdown', (event) => {
  if (event.pointerType !== 'touch') return;
  fingers.set(event.pointerId, pointIn(event, timeline));
  if (fingers.size !== 2) return;
  const {distance, middle} = fingerSpan();
  drag = null;
  hideTooltip();
  pinch = {distance, time: timeAt(middle), span: view.to - view.from};
});
timeline.addEventListener('pointermove', (event) => {
  if (!fingers.has(event.pointerId)) return;
  fingers.set(event.pointerId, pointIn(event, timeline));
  if (!pinch) return;
  const {distance, middle} = fingerSpan();
  const span = pinch.span * (pinch.distance / distance);
  const from = pinch.time - ((middle - frame.gutter) / frame.plot) * span;
  showSpan(from, from + span);
});
for (const ended of ['pointerup', 'pointercancel']) {
  timeline.addEventListener(ended, (event) => {
    fingers.delete(event.pointerId);
    if (fingers.size < 2) pinch = null;
  });
}
