// The menu of saved views: open one, save the filters that are shown, remove one.
import { type FormEvent, type JSX, useEffect, useRef, useState } from 'react'
import { go, rewrite, usePlace } from '../../live/place'
import { say } from '../../parts/toast'
import { t } from '../../text/text'
import { addressOf, NAME_CHARS_MAX, removeView, saveView, useViews, VIEWS_MAX, wordsOf } from './views'

export function SavedViews(): JSX.Element {
  const { query } = usePlace()
  const views = useViews()
  const menu = useRef<HTMLDetailsElement>(null)
  const name = (query.get('view') ?? '').slice(0, NAME_CHARS_MAX)
  const words = wordsOf(query)
  const saved = views.find((one) => one.name === name)
  const isChanged = saved !== undefined && saved.words !== words
  const close = () => menu.current?.removeAttribute('open')
  useClosing(menu, close)
  return (
    <details className="views" ref={menu}>
      <summary className="button">
        {name ? (
          <>
            <b>{name}</b> {isChanged && <small>{t('views.changed')}</small>}
          </>
        ) : (
          t('views.title')
        )}
      </summary>
      <div className="views-menu">
        {views.length === 0 && <p className="faint-text">{t('views.none')}</p>}
        <ul>
          {views.map((one) => (
            <li key={one.name}>
              <a href={addressOf(one)} aria-current={one.name === name ? 'true' : undefined} onClick={close}>
                {one.name}
              </a>
              <button
                type="button"
                className="plain"
                aria-label={t('do.remove', { what: one.name })}
                onClick={() => {
                  removeView(one.name)
                  if (one.name === name) rewrite({ view: null })
                }}
              >
                ×
              </button>
            </li>
          ))}
        </ul>
        <Save key={name} name={name} words={words} isFull={views.length >= VIEWS_MAX && !saved} close={close} />
      </div>
    </details>
  )
}

function Save(props: { name: string; words: string; isFull: boolean; close: () => void }): JSX.Element {
  const [name, setName] = useState(props.name)
  const save = (event: FormEvent) => {
    event.preventDefault()
    const view = { name: name.trim(), words: props.words }
    if (view.name === '') return
    saveView(view)
    go(addressOf(view).slice(1))
    say(t('views.saved', { name: view.name }))
    props.close()
  }
  return (
    <form onSubmit={save}>
      <label>
        <span>{t('views.name')}</span>
        <input value={name} maxLength={NAME_CHARS_MAX} required onChange={(event) => setName(event.target.value)} />
      </label>
      <button type="submit" className="main" disabled={props.isFull}>
        {t('views.save')}
      </button>
      <p className="faint-text">{props.isFull ? t('views.full', { n: VIEWS_MAX }) : t('views.shared')}</p>
    </form>
  )
}

/** Escape and a click elsewhere close it, as they close every menu. */
function useClosing(menu: { current: HTMLDetailsElement | null }, close: () => void): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== 'Escape' || !menu.current?.open) return
      close()
      menu.current.querySelector('summary')?.focus()
    }
    const onClick = (event: MouseEvent) => {
      if (!menu.current?.contains(event.target as Node)) close()
    }
    addEventListener('keydown', onKey)
    addEventListener('click', onClick)
    return () => {
      removeEventListener('keydown', onKey)
      removeEventListener('click', onClick)
    }
  })
}
