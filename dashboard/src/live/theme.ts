// Light or dark: as the system has it, or as it was chosen here.
import { Cell } from './cell'

export type Theme = 'auto' | 'light' | 'dark'
const PLACE = 'pyoco.theme'

export const theme = new Cell<Theme>(kept())

export function setTheme(next: Theme): void {
  try {
    localStorage.setItem(PLACE, next)
  } catch {
    // holds for this page only
  }
  theme.set(next)
  show(next)
}

export function startTheme(): void {
  show(theme.get())
}

function show(chosen: Theme): void {
  if (chosen === 'auto') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = chosen
}

function kept(): Theme {
  try {
    const found = localStorage.getItem(PLACE)
    return found === 'light' || found === 'dark' ? found : 'auto'
  } catch {
    return 'auto'
  }
}
