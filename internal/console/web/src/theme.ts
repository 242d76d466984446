import { signal } from '@preact/signals'

// The system's theme, unless the user has chosen one.
const system = window.matchMedia('(prefers-color-scheme: dark)')
const chosen = localStorage.getItem('penstock-theme')

export const dark = signal(chosen ? chosen === 'dark' : system.matches)

function apply() {
  document.documentElement.dataset.theme = dark.value ? 'dark' : 'light'
}

apply()
system.addEventListener('change', (e) => {
  if (!localStorage.getItem('penstock-theme')) {
    dark.value = e.matches
    apply()
  }
})

export function toggleTheme() {
  dark.value = !dark.value
  localStorage.setItem('penstock-theme', dark.value ? 'dark' : 'light')
  apply()
}
