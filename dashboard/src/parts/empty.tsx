// A page with nothing to show yet says what would be here, and how to get it.
import type { JSX, ReactNode } from 'react'
import { Command } from './copy'

export function Empty(props: { title: string; text: string; command?: string; children?: ReactNode }): JSX.Element {
  return (
    <div className="empty">
      <h2>{props.title}</h2>
      <p>{props.text}</p>
      {props.command && <Command text={props.command} />}
      {props.children}
    </div>
  )
}
