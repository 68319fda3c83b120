// Keys of the page: a part says which it wants while it is shown; typing into a field is never taken for one.
import { useEffect } from 'react'

export type Keys = Record<string, (event: KeyboardEvent) => void>

const stack: { keys: Keys }[] = []

export function useKeys(keys: Keys): void {
  useEffect(() => {
    const own = { keys }
    stack.push(own)
    return () => {
      stack.splice(stack.indexOf(own), 1)
    }
  }, [keys])
}

let before: { key: string; at: number } | null = null
const SEQUENCE_MS = 1000

export function startKeys(): void {
  addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return
    const twice = before && event.timeStamp - before.at < SEQUENCE_MS ? `${before.key} ${event.key}` : null
    before = { key: event.key, at: event.timeStamp }
    const act = (twice && wanted(twice)) || wanted(event.key)
    if (act) {
      event.preventDefault()
      act(event)
    }
  })
}

function wanted(key: string): ((event: KeyboardEvent) => void) | undefined {
  return stack.findLast((own) => key in own.keys)?.keys[key]
}

function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement
  if (document.querySelector('dialog[open]')) return true // its keys are its own
  // In a box that is only checked nothing is typed.
  if (target instanceof HTMLInputElement && target.type === 'checkbox') return event.key === ' '
  return /^(input|textarea|select)$/i.test(target.tagName) || target.isContentEditable
}
