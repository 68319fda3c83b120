// The parameters of a run: a field for each that the worker describes, or all of them as JSON.
import { type JSX, useId } from 'react'
import type { Param } from '../../../api/types'
import { t } from '../../../text/text'
import { ParamField } from './fields'
import type { ParamsForm } from './use-params'

const MODES = ['form', 'json'] as const

export function ParamsField({
  form,
  known,
  rows = 6,
  title = t('run.params'),
  label = t('flows.submit.params'),
}: {
  form: ParamsForm
  known: Param[] | null | undefined
  rows?: number
  /** Of the fields, and of the text that takes their place. */
  title?: string
  label?: string
}): JSX.Element {
  const id = useId()
  const problem = form.problems.get('')
  return (
    <div className="params-field">
      <div className="params-head">
        <span id={`${id}-title`}>{title}</span>
        <div className="segments" role="tablist" aria-labelledby={`${id}-title`}>
          {MODES.map((mode) => (
            <button
              key={mode}
              type="button"
              role="tab"
              aria-selected={form.mode === mode}
              disabled={mode === 'form' && form.members === null}
              title={mode === 'form' && form.members === null ? t('form.unknown') : undefined}
              onClick={() => form.setMode(mode)}
            >
              {t(`form.mode.${mode}`)}
            </button>
          ))}
        </div>
      </div>
      {form.mode === 'json' ? (
        <>
          <label className="field">
            {label}
            <textarea
              value={form.text}
              rows={rows}
              spellCheck={false}
              aria-invalid={problem !== undefined}
              aria-describedby={`${id}-problem`}
              onChange={(event) => form.setText(event.target.value)}
            />
          </label>
          <div id={`${id}-problem`}>
            {problem && (
              <p className="problem" role="alert">
                {problem}
              </p>
            )}
          </div>
        </>
      ) : (
        <Fields form={form} known={known ?? []} />
      )}
    </div>
  )
}

function Fields({ form, known }: { form: ParamsForm; known: Param[] }): JSX.Element {
  const others = Object.entries(form.others)
  return (
    <div className="params-form">
      {form.members?.length === 0 && <p className="faint-text">{t('form.none')}</p>}
      {form.members?.map((one) => (
        <ParamField
          key={one.name}
          member={one}
          path={one.name}
          written={known.find((param) => param.name === one.name)?.type}
          draft={form.drafts[one.name] ?? null}
          change={(draft) => form.change(one.name, draft)}
          problems={form.problems}
        />
      ))}
      {others.length > 0 && (
        <p className="hint" data-part="others">
          {t('form.others')}{' '}
          {others.map(([name, value]) => (
            <code key={name}>{`${name}: ${JSON.stringify(value).slice(0, 60)} `}</code>
          ))}
        </p>
      )}
      {form.problems.size > 0 && (
        <p className="problem" role="alert">
          {t('form.fix', { n: form.problems.size })}
        </p>
      )}
    </div>
  )
}

/** Go to the first field with a problem, once it is drawn. */
export function focusProblem(within: Element | null = document.querySelector('dialog')): void {
  requestAnimationFrame(() =>
    requestAnimationFrame(() => {
      const wrong = within?.querySelector<HTMLElement>('[aria-invalid=true]')
      ;(wrong ?? within?.querySelector<HTMLElement>('.problem:not(:empty)'))?.focus()
    }),
  )
}
