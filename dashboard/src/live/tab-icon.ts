// The icon of the browser's tab: the product's own, or with the tone of what the page shows.
import { useEffect } from 'react'

const COLOURS: Record<string, string> = {
  good: '#1a7445',
  bad: '#b42a2a',
  wait: '#b97a00',
  busy: '#3459c9',
  quiet: '#5d6675',
}
const SIGNS: Record<string, string> = {
  good: 'm9 17 5 5 9-11',
  bad: 'm10 10 12 12M22 10 10 22',
  wait: 'M12 10v12M20 10v12',
  busy: 'm12 9 10 7-10 7z',
  quiet: 'M9 16h14',
}

const link = () => document.querySelector<HTMLLinkElement>('link[rel=icon]')

/** For as long as the page is shown. */
export function useTabIcon(tone: string): void {
  useEffect(() => {
    const icon = link()
    if (icon === null) return
    icon.dataset.own ??= icon.href
    icon.dataset.tone = tone
    icon.href = `data:image/svg+xml,${encodeURIComponent(drawn(tone))}`
    return () => {
      icon.href = icon.dataset.own ?? icon.href
      delete icon.dataset.tone
    }
  }, [tone])
}

function drawn(tone: string): string {
  const path = `<path d="${SIGNS[tone]}" fill="none" stroke="#fff" stroke-width="3.4" stroke-linecap="round" stroke-linejoin="round"/>`
  const ground = `<rect width="32" height="32" rx="7" fill="${COLOURS[tone]}"/>`
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">${ground}${path}</svg>`
}
