// A page whose charts are drawn already: its buttons and keys.

function redrawAll() {
  markOverflows();
}

async function copyCode(button) {
  const code = button.parentElement.querySelector('pre');
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = 'Copied';
  } catch {
    // Where a page may not write to the clipboard, it is selected.
    getSelection().selectAllChildren(code);
  }
}

const copyButtons = [...document.querySelectorAll('button.copy')];
for (const button of copyButtons) button.addEventListener('click', () => copyCode(button));

function toggleCodes() {
  const all = [...document.querySelectorAll('details.way')];
  const open = all.some((each) => !each.open);
  for (const each of all) each.open = open;
}

const pageKeys = {
  't': nextTheme,
  'c': () => copyButtons.length && copyCode(copyButtons[0]),
  'e': toggleCodes,
  '?': () => help.showModal(),
};

document.addEventListener('keydown', (event) => {
  const action = pageKeys[event.key];
  if (!action || event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  event.preventDefault();
  action();
});

addEventListener('resize', redrawAll);
showTheme();
