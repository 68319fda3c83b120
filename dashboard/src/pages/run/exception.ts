// What a traceback says: the type of the exception, and its message. Pure.

export type Raised = { type: string; message: string }

const RAISED = /^((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: (.*))?$/s
const FRAME = '  File "'

/** The exception at the end of a Python traceback. Its message can have several lines. `null`: another form. */
export function raisedIn(traceback: string): Raised | null {
  const lines = traceback.trimEnd().split('\n')
  const frame = lines.findLastIndex((line) => line.startsWith(FRAME))
  const begin = lines.findIndex((line, index) => index > frame && line !== '' && !line.startsWith(' '))
  const found = begin < 0 ? null : RAISED.exec(lines.slice(begin).join('\n'))
  return found ? { type: found[1] as string, message: found[2] ?? '' } : null
}
