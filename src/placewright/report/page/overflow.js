// Tables that hold more than they show fade out on the sides where it goes on.

const scrollers = [...document.querySelectorAll('.scroll')];

function markOverflow(box) {
  const right = box.scrollWidth - box.clientWidth - box.scrollLeft;
  const below = box.scrollHeight - box.clientHeight - box.scrollTop;
  box.classList.toggle('more-left', box.scrollLeft > 1);
  box.classList.toggle('more-right', right > 1);
  box.classList.toggle('more-below', below > 1);
  const wide = box.scrollWidth > box.clientWidth + 1;
  if (wide || box.scrollHeight > box.clientHeight + 1) box.tabIndex = 0;
  else box.removeAttribute('tabindex');
  box.previousElementSibling.hidden = !wide;
}

const markOverflows = () => scrollers.forEach(markOverflow);

for (const box of scrollers) {
  box.before(make('p', {class: 'muted scroll-hint', hidden: ''}, 'more columns: scroll sideways →'));
  box.addEventListener('scroll', () => markOverflow(box), {passive: true});
}
