import { useState } from 'preact/hooks'
import { type Failure, post, session } from '../api'
import { instant } from '../format'
import { Trouble } from '../ui/load'
import { roles } from './users'

// Account shows who is logged in, and lets users change their password.
export function Account() {
  const { user, token, role, scopes, expires } = session.value!
  return (
    <>
      <h1>Account</h1>
      <dl>
        <dt>User</dt>
        <dd>{user ?? 'none: logged in with a token of the configuration or a service'}</dd>
        {token && <dt>Token</dt>}
        {token && <dd>{token}</dd>}
        <dt>Role</dt>
        <dd>
          {role}: {roles[role]}
        </dd>
        {scopes && <dt>Scopes</dt>}
        {scopes && <dd>{scopes.join(', ')}</dd>}
        {expires && <dt>Logged in until</dt>}
        {expires && <dd>{instant(expires)}, extended while you use the console</dd>}
      </dl>
      {user && !token && <ChangePassword user={user} />}
    </>
  )
}

function ChangePassword({ user }: { user: string }) {
  const [current, setCurrent] = useState('')
  const [password, setPassword] = useState('')
  const [state, setState] = useState<Failure | 'done'>()
  const submit = async (e: Event) => {
    e.preventDefault()
    try {
      session.value = await post('/v1/session/password', { body: { current, password } })
      setState('done')
      setCurrent('')
      setPassword('')
    } catch (err) {
      setState(err as Failure)
    }
  }
  return (
    <section class="card">
      <h2>Change your password</h2>
      <form onSubmit={submit}>
        <input type="hidden" autocomplete="username" value={user} />
        <div class="form">
          <label>
            Current password
            <input
              type="password"
              autocomplete="current-password"
              required
              value={current}
              onInput={(e) => setCurrent(e.currentTarget.value)}
            />
          </label>
          <label>
            New password
            <input
              type="password"
              autocomplete="new-password"
              required
              minLength={12}
              value={password}
              onInput={(e) => setPassword(e.currentTarget.value)}
            />
          </label>
          <button type="submit" class="primary">
            Change
          </button>
        </div>
        <p class="quiet">At least 12 characters. Your other sessions end.</p>
      </form>
      {state === 'done' && (
        <p class="good" role="status">
          Your password is changed.
        </p>
      )}
      {state && state !== 'done' && <Trouble error={state} />}
    </section>
  )
}
