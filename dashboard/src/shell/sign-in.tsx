// Sign in with a key or a token. It is kept for this session of the browser, or on this device by choice.
import { type JSX, useState } from 'react'
import type { ApiError } from '../api/client'
import { authMethods, credential, signIn } from '../api/session'
import { Command } from '../parts/copy'
import { t } from '../text/text'

type Kind = 'key' | 'jwt'
const KINDS: Kind[] = ['key', 'jwt']
const METHODS: Record<Kind, string> = { key: 'api_key', jwt: 'jwt' }

/** `intro`: for a page that asks for more than the others do. */
export function SignIn({ error, intro }: { error: ApiError | null; intro?: string }): JSX.Element {
  const kinds = KINDS.filter((one) => authMethods.length === 0 || authMethods.includes(METHODS[one]))
  const [kind, setKind] = useState<Kind>(intro ? 'jwt' : (kinds[0] ?? 'key'))
  const [value, setValue] = useState('')
  const [remember, setRemember] = useState(false)
  return (
    <form
      className="card sign-in"
      onSubmit={(event) => {
        event.preventDefault()
        if (value.trim()) signIn({ kind, value: value.trim() }, remember)
      }}
    >
      <h1>{t('who.title')}</h1>
      <p>{intro ?? t('who.intro')}</p>
      {credential() && error && (
        <p className="wrong" role="alert">
          {error.message}
        </p>
      )}
      {kinds.length > 1 && (
        <div className="choices" role="radiogroup" aria-label={t('who.title')}>
          {kinds.map((one) => (
            <label key={one}>
              <input type="radio" name="kind" checked={kind === one} onChange={() => setKind(one)} />
              {t(`who.${one}`)}
            </label>
          ))}
        </div>
      )}
      <label className="field">
        {t(`who.${kind}`)}
        <input type="password" autoComplete="off" value={value} onChange={(event) => setValue(event.target.value)} />
      </label>
      <div>
        <label className="check">
          <input type="checkbox" checked={remember} onChange={() => setRemember(!remember)} /> {t('who.remember')}
        </label>
        <p className="hint">{t('who.remember.hint')}</p>
      </div>
      <button type="submit" className="main">
        {t('who.in')}
      </button>
      {kind === 'key' && (
        <>
          <p className="faint-text">{t('who.make')}</p>
          <Command text="pyoco-server-admin api-key create --tenant default" />
        </>
      )}
    </form>
  )
}
