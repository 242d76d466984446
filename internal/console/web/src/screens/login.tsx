import { useState } from 'preact/hooks'
import { type Failure, post, session } from '../api'

export function Login() {
  const [token, setToken] = useState('')
  const [busy, setBusy] = useState(false)
  const [wrong, setWrong] = useState('')
  const submit = async (e: Event) => {
    e.preventDefault()
    setBusy(true)
    setWrong('')
    try {
      session.value = await post('/v1/session', { body: { token } })
    } catch (err) {
      const failure = err as Failure
      setWrong(failure.status === 401 ? 'That is not the token.' : failure.message)
    }
    setBusy(false)
  }
  return (
    <main class="alone">
      <form class="login" onSubmit={submit}>
        <h1>
          <img src="/icon.svg" alt="" width="30" height="30" /> Penstock
        </h1>
        <label>
          Admin token
          <input
            type="password"
            autocomplete="current-password"
            autofocus
            required
            value={token}
            onInput={(e) => setToken(e.currentTarget.value)}
          />
        </label>
        {wrong && (
          <p class="trouble" role="alert">
            {wrong}
          </p>
        )}
        <button type="submit" class="primary" disabled={busy || token === ''}>
          Log in
        </button>
        <p class="quiet">
          <code>penstock serve</code> prints a token once when it starts; <code>admin.token</code> or{' '}
          <code>PENSTOCK_ADMIN_TOKEN</code> sets one for good.
        </p>
      </form>
    </main>
  )
}
