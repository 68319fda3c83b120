// Server-sent events out of text as it comes, piece by piece. Knows no connection.

export type ServerEvent = { event: string; data: string; id?: string }

export class EventParser {
  private rest = ''
  retryMs: number | undefined

  /** The events that are whole after this piece. */
  take(piece: string): ServerEvent[] {
    const blocks = (this.rest + piece).split('\n\n')
    this.rest = blocks.pop() ?? ''
    return blocks.flatMap((block) => {
      const event = this.read(block)
      return event ? [event] : []
    })
  }

  private read(block: string): ServerEvent | null {
    const found: ServerEvent = { event: 'message', data: '' }
    const data: string[] = []
    for (const line of block.split('\n')) {
      if (line.startsWith(':') || line === '') continue
      const colon = line.indexOf(':')
      const name = colon < 0 ? line : line.slice(0, colon)
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
      if (name === 'event') found.event = value
      else if (name === 'data') data.push(value)
      else if (name === 'id') found.id = value
      else if (name === 'retry') this.retryMs = Number(value) || undefined
    }
    if (data.length === 0) return null
    found.data = data.join('\n')
    return found
  }
}
