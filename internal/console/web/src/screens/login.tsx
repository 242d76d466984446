import { useState } from 'preact/hooks'
import { type Failure, post, session } from '../api'

// How the user logged in last, in this browser. Before the first user there is only the token.
const remembered = 'penstock-login'

type Way = 'token' | 'password'

export function Login() {
  const [way, setWay] = useState<Way>(localStorage.getItem(remembered) === 'password' ? 'password' : 'token')
  const [user, setUser] = useState('')
  const [secret, setSecret] = useState('')
  const [busy, setBusy] = useState(false)
  const [wrong, setWrong] = useState('')
  const submit = async (e: Event) => {
    e.preventDefault()
    setBusy(true)
    setWrong('')
    try {
      session.value = await post('/v1/session', {
        body: way === 'token' ? { token: secret } : { user, password: secret },
      })
      localStorage.setItem(remembered, way)
    } catch (err) {
      const failure = err as Failure
      const unknown = way === 'token' ? 'That is not the token.' : 'Wrong user name or password.'
      setWrong(failure.status === 401 ? unknown : failure.message)
    }
    setBusy(false)
  }
  const choose = (to: Way) => {
    setWay(to)
    setSecret('')
    setWrong('')
  }
  return (
    <main class="alone">
      <form class="login" onSubmit={submit}>
        <h1>
          <img src="/icon.svg" alt="" width="30" height="30" /> Penstock
        </h1>
        <div class="choice" role="group" aria-label="Log in with">
          <button type="button" aria-pressed={way === 'password'} onClick={() => choose('password')}>
            Password
          </button>
          <button type="button" aria-pressed={way === 'token'} onClick={() => choose('token')}>
            Token
          </button>
        </div>
        {way === 'password' && (
          <label>
            User name
            <input
              autocomplete="username"
              autocapitalize="none"
              autofocus
              required
              value={user}
              onInput={(e) => setUser(e.currentTarget.value)}
            />
          </label>
        )}
        <label>
          {way === 'token' ? 'Admin token' : 'Password'}
          <input
            key={way}
            type="password"
            autocomplete={way === 'token' ? 'off' : 'current-password'}
            autofocus={way === 'token'}
            required
            value={secret}
            onInput={(e) => setSecret(e.currentTarget.value)}
          />
        </label>
        {wrong && (
          <p class="trouble" role="alert">
            {wrong}
          </p>
        )}
        <button type="submit" class="primary" disabled={busy || secret === ''}>
          Log in
        </button>
        {way === 'token' ? (
          <p class="quiet">
            <code>penstock serve</code> prints a token at its first start and keeps it in{' '}
            <code>data_dir/admin_token</code>; <code>admin.token</code> sets one. API tokens work too.
          </p>
        ) : (
          <p class="quiet">
            No user yet? Log in with the token, then add users under Users, or run <code>penstock users add</code>.
          </p>
        )}
      </form>
    </main>
  )
}
