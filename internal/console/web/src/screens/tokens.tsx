import { useState } from 'preact/hooks'
import { del, type Failure, isAdmin, post, session } from '../api'
import { instant } from '../format'
import type { Role, Token } from '../types'
import { Badge } from '../ui/badge'
import { Empty, Secret, Show, Trouble, useLoad } from '../ui/load'
import { Table } from '../ui/table'
import { roles } from './users'

interface NewToken {
  name: string
  role: Role
  days: number
  scopes: string[]
  service: boolean
}

export function Tokens() {
  const tokens = useLoad('/v1/tokens')
  const [error, setError] = useState<Failure>()
  const [made, setMade] = useState<{ name: string; secret: string }>()
  const run = async (request: Promise<unknown>) => {
    try {
      const answer = (await request) as { name?: string; secret?: string }
      setError(undefined)
      setMade(answer.name && answer.secret ? { name: answer.name, secret: answer.secret } : undefined)
      tokens.again()
      return true
    } catch (err) {
      setError(err as Failure)
      return false
    }
  }
  const revoke = (t: Token) => {
    if (confirm(`Revoke the token ${t.name}? What uses it is refused within two seconds.`))
      void run(del('/v1/tokens/{id}', { path: { id: t.id } }))
  }
  return (
    <>
      <h1>API tokens</h1>
      <p class="quiet">
        For Prometheus, deployments and scripts: <code>Authorization: Bearer pen_…</code> or <code>PENSTOCK_TOKEN</code>
        .
      </p>
      {error && <Trouble error={error} />}
      {made && <Secret title={`Token ${made.name}`} text={made.secret} />}
      <Show of={tokens}>
        {(all) => (
          <>
            {all.tokens.length === 0 ? (
              <Empty title="There are no tokens yet">
                <p>Create one below. A good first one: Prometheus, as viewer, with the scope metrics only.</p>
              </Empty>
            ) : (
              <List tokens={all.tokens} revoke={revoke} />
            )}
            <CreateToken scopes={all.scopes} create={(body) => run(post('/v1/tokens', { body }))} />
          </>
        )}
      </Show>
    </>
  )
}

function List({ tokens, revoke }: { tokens: Token[]; revoke: (t: Token) => void }) {
  return (
    <Table name="Tokens" columns={['Token', 'User', 'Role', 'Scopes', 'Expires', 'Last used', 'Actions']}>
      {tokens.map((t) => (
        <tr key={t.id} class={t.expired ? 'off' : ''}>
          <td title={`created by ${t.created_by}, ${instant(t.created)}`}>
            {t.name} <code>{t.id}</code>
          </td>
          <td>{t.user ?? 'service'}</td>
          <td>{t.role}</td>
          <td>{t.scopes.length > 0 ? t.scopes.join(', ') : 'all'}</td>
          <td>
            {t.expires ? instant(t.expires) : 'never'} {t.expired && <Badge kind="denied">expired</Badge>}
          </td>
          <td>{t.last_used ? instant(t.last_used) : 'never'}</td>
          <td class="actions">
            <button type="button" class="small" onClick={() => revoke(t)}>
              Revoke
            </button>
          </td>
        </tr>
      ))}
    </Table>
  )
}

// rolesUpTo are those that a token of somebody with a role can have.
const rolesUpTo = (most: Role) => {
  const all = Object.keys(roles) as Role[]
  return all.slice(0, all.indexOf(most) + 1)
}

function CreateToken({ scopes, create }: { scopes: string[]; create: (token: NewToken) => Promise<boolean> }) {
  const user = session.value?.user
  const [name, setName] = useState('')
  const [role, setRole] = useState<Role>('viewer')
  const [days, setDays] = useState(90)
  const [chosen, setChosen] = useState<string[]>([])
  const [service, setService] = useState(user === undefined)
  if (user === undefined && !isAdmin()) return <p>Only users and admins create tokens.</p>
  return (
    <section class="card">
      <h2>Create a token</h2>
      <form
        onSubmit={async (e) => {
          e.preventDefault()
          if (await create({ name: name.trim(), role, days, scopes: chosen, service })) setName('')
        }}
      >
        <div class="form">
          <label>
            Token name
            <input required autocomplete="off" value={name} onInput={(e) => setName(e.currentTarget.value)} />
          </label>
          <label>
            Role
            <select value={role} onChange={(e) => setRole(e.currentTarget.value as Role)}>
              {rolesUpTo(session.value!.role).map((r) => (
                <option key={r}>{r}</option>
              ))}
            </select>
          </label>
          <label>
            Expires
            <select value={days} onChange={(e) => setDays(Number(e.currentTarget.value))}>
              <option value={7}>in 7 days</option>
              <option value={30}>in 30 days</option>
              <option value={90}>in 90 days</option>
              <option value={365}>in a year</option>
              <option value={0}>never</option>
            </select>
          </label>
          {isAdmin() && user !== undefined && (
            <label class="check">
              <input type="checkbox" checked={service} onChange={(e) => setService(e.currentTarget.checked)} />
              For a service: stays when you leave
            </label>
          )}
        </div>
        <fieldset>
          <legend>Scopes: none chosen means everything that the role may do</legend>
          {scopes.map((s) => (
            <label key={s} class="check">
              <input
                type="checkbox"
                checked={chosen.includes(s)}
                onChange={() => setChosen(chosen.includes(s) ? chosen.filter((c) => c !== s) : [...chosen, s])}
              />
              {s}
            </label>
          ))}
        </fieldset>
        <button type="submit" class="primary" disabled={name.trim() === ''}>
          Create
        </button>
      </form>
    </section>
  )
}
