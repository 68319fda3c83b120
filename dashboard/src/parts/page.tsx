// The frame of a page: its title, what can be done, and its title in the browser.
import { type JSX, type ReactNode, useEffect } from 'react'

export function Page(props: {
  title: string
  /** In the place of the title. */
  heading?: ReactNode
  /** In the browser's tab, in the place of the title. */
  tab?: string
  actions?: ReactNode
  children: ReactNode
  className?: string
}): JSX.Element {
  useEffect(() => {
    document.title = `${props.tab ?? props.title} · pyoco`
  }, [props.title, props.tab])
  return (
    <section className={`page ${props.className ?? ''}`}>
      <header className="page-head">
        <h1>{props.heading ?? props.title}</h1>
        <div className="actions">{props.actions}</div>
      </header>
      {props.children}
    </section>
  )
}
