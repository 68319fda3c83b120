// The search in a log: `/` focuses it, Enter goes to the next match, Shift and Enter to the previous one.
import { type JSX, useEffect, useMemo, useRef, useState } from 'react'
import { type Keys, useKeys } from '../../../live/keys'
import { say } from '../../../parts/toast'
import { sentence } from '../../../parts/wrong'
import { number } from '../../../text/format'
import { t } from '../../../text/text'
import { searchLog } from './log-search'

/** A pause in typing after which the search begins without Enter. */
const TYPING_MS = 400

type Props = {
  id: string
  task: string | null
  text: string
  setText: (text: string) => void
  goTo: (seq: number) => void
}

export function SearchBox({ id, task, text, setText, goTo }: Props): JSX.Element {
  const field = useRef<HTMLInputElement>(null)
  const { hits, at, progress, search, clear, step } = useSearch(id, task, goTo)
  useKeys(
    useMemo(
      (): Keys => ({
        '/': () => {
          field.current?.focus()
          field.current?.select()
        },
      }),
      [],
    ),
  )
  const typing = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => () => clearTimeout(typing.current), [])
  const begin = (wanted: string) => {
    clearTimeout(typing.current)
    void search(wanted)
  }
  return (
    <form role="search" className="log-search" onSubmit={(event) => event.preventDefault()}>
      <input
        ref={field}
        type="search"
        value={text}
        placeholder={t('log.search')}
        aria-label={t('log.search')}
        aria-keyshortcuts="/"
        onChange={(event) => {
          const wanted = event.target.value
          clear()
          setText(wanted)
          clearTimeout(typing.current)
          if (wanted !== '') typing.current = setTimeout(() => begin(wanted), TYPING_MS)
        }}
        onKeyDown={(event) => {
          if (event.key === 'Escape') field.current?.blur()
          if (event.key !== 'Enter') return
          if (hits?.length) step(event.shiftKey ? -1 : 1)
          else begin(text)
        }}
      />
      {progress !== null && (
        <span role="status" className="log-hits">
          {t('log.searched', { n: number(progress.n), all: number(progress.all) })}
        </span>
      )}
      {hits !== null && (
        <span role="status" className="log-hits">
          {hits.length ? t('log.hit', { i: at + 1, n: number(hits.length) }) : t('log.hits', { n: 0 })}
        </span>
      )}
      {hits !== null && hits.length > 1 && (
        <>
          <button type="button" className="small plain" aria-label={t('log.previous')} onClick={() => step(-1)}>
            ↑
          </button>
          <button type="button" className="small plain" aria-label={t('log.next')} onClick={() => step(1)}>
            ↓
          </button>
        </>
      )}
    </form>
  )
}

type Search = {
  hits: number[] | null
  at: number
  progress: { n: number; all: number } | null
  search: (text: string) => Promise<void>
  clear: () => void
  step: (by: number) => void
}

function useSearch(id: string, task: string | null, goTo: (seq: number) => void): Search {
  const [hits, setHits] = useState<number[] | null>(null)
  const [at, setAt] = useState(0)
  const [progress, setProgress] = useState<{ n: number; all: number } | null>(null)
  const searching = useRef<AbortController | null>(null)
  useEffect(() => () => searching.current?.abort(), [])
  const clear = () => {
    searching.current?.abort()
    setProgress(null)
    setHits(null)
  }
  const search = async (text: string) => {
    clear()
    if (text === '') return
    searching.current = new AbortController()
    const { signal } = searching.current
    let went = false
    const show = (found: number[]) => {
      setHits(found)
      if (went || found[0] === undefined) return
      went = true
      setAt(0)
      goTo(found[0])
    }
    const onPause = (soFar: number[], n: number, all: number) => {
      if (soFar.length) show(soFar)
      setProgress({ n, all })
    }
    try {
      const found = await searchLog(id, text, signal, onPause, task)
      setProgress(null)
      show(found)
    } catch (error) {
      if (signal.aborted) return
      setProgress(null)
      say(sentence(error), true)
    }
  }
  const step = (by: number) => {
    if (!hits?.length) return
    const next = (at + by + hits.length) % hits.length
    setAt(next)
    goTo(hits[next] as number)
  }
  return { hits, at, progress, search, clear, step }
}
