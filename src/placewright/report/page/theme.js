// The buttons of every page: light or dark, and what the keys do. Each page has its own redrawAll.

const help = document.getElementById('help');
const themeButton = document.getElementById('theme');
const THEMES = ['', 'light', 'dark'];

function nextTheme() {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.dataset.theme || '') + 1) % THEMES.length];
  if (next) root.dataset.theme = next;
  else delete root.dataset.theme;
  showTheme();
}

function showTheme() {
  const theme = document.documentElement.dataset.theme;
  themeButton.textContent = `Theme: ${theme || 'system'}`;
  redrawAll();
}

document.getElementById('help-button').addEventListener('click', () => help.showModal());
themeButton.addEventListener('click', nextTheme);
