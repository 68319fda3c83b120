// The tags of a worker or a queue.
import type { JSX } from 'react'

export function Tags({ tags }: { tags: string[] }): JSX.Element {
  return (
    <>
      {tags.map((tag) => (
        <span key={tag} className="tag">
          {tag}
        </span>
      ))}
    </>
  )
}
