// The payload of an answer: fields where the flow describes it, else JSON that is added on demand.
import { type JSX, useState } from 'react'
import { t } from '../../text/text'
import { ParamsField } from '../flows/form/params-field'
import { useParams } from '../flows/form/use-params'
import { answerFormOf } from './answer-schema'

export type Decision = 'approve' | 'reject'

export type Payload = {
  field: JSX.Element
  /** A part of the request. Null: the form has problems, which it then shows. Throws for what is no JSON. */
  read: (decision: Decision) => { payload?: unknown } | null
}

export function usePayload(prompt: Record<string, unknown> | null): Payload {
  const known = answerFormOf(prompt)
  const form = useParams(known?.fields, known?.begins ?? {})
  const [text, setText] = useState<string | null>(null)
  if (known !== null)
    return {
      field: (
        <ParamsField
          form={form}
          known={known.fields}
          title={t('approvals.answer')}
          label={t('approvals.answer.json')}
        />
      ),
      // Who rejects does not answer the question: only the comment is sent.
      read: (decision) => {
        if (decision === 'reject') return {}
        const values = form.read()
        return values === null ? null : { payload: known.answerOf(values) }
      },
    }
  return {
    field: <Text text={text} setText={setText} />,
    read: () => (text?.trim() ? { payload: parse(text) } : {}),
  }
}

function Text({ text, setText }: { text: string | null; setText: (text: string) => void }): JSX.Element {
  if (text === null)
    return (
      <button type="button" className="plain add-payload" onClick={() => setText('')}>
        {t('approvals.more')}
      </button>
    )
  return (
    <label className="field">
      {t('approvals.payload')}
      <textarea value={text} spellCheck={false} onChange={(event) => setText(event.target.value)} />
    </label>
  )
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error(t('approvals.badJson', { why: (error as Error).message }))
  }
}
