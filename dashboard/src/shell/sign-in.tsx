// Who are you? A key or a token, kept for this session of the browser.
import { type JSX, useState } from 'react'
import type { ApiError } from '../api/client'
import { authMethods, credential, signIn } from '../api/session'
import { Command } from '../parts/copy'
import { t } from '../text/text'

export function SignIn({ error }: { error: ApiError | null }): JSX.Element {
  const [kind, setKind] = useState<'key' | 'jwt'>(authMethods.includes('api_key') || authMethods.length === 0 ? 'key' : 'jwt')
  const [value, setValue] = useState('')
  return (
    <form
      className="card sign-in"
      onSubmit={(event) => {
        event.preventDefault()
        if (value.trim()) signIn({ kind, value: value.trim() })
      }}
    >
      <h1>{t('who.title')}</h1>
      <p>{t('who.intro')}</p>
      {credential() && error && (
        <p className="wrong" role="alert">
          {error.message}
        </p>
      )}
      {authMethods.length > 1 && (
        <div className="choices" role="radiogroup" aria-label={t('who.title')}>
          {(['key', 'jwt'] as const).map((one) => (
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
