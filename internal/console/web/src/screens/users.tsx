import { useState } from 'preact/hooks'
import { del, type Failure, post, put, session } from '../api'
import { instant } from '../format'
import type { Role, User } from '../types'
import { Empty, Secret, Show, Trouble, useLoad } from '../ui/load'
import { Table } from '../ui/table'

// roles are what users and tokens can be, and what that means.
export const roles: Record<Role, string> = {
  viewer: 'reads, with client identifiers hashed',
  operator: 'also sees identifiers, changes rules, resets and bans clients',
  admin: 'also manages users and tokens',
}

export function Users() {
  const users = useLoad('/v1/users')
  const [error, setError] = useState<Failure>()
  const [made, setMade] = useState<{ name: string; password: string }>()
  const run = async (request: Promise<unknown>) => {
    try {
      const answer = (await request) as { name?: string; password?: string } | undefined
      setError(undefined)
      setMade(answer?.name && answer.password ? { name: answer.name, password: answer.password } : undefined)
      users.again()
      return true
    } catch (err) {
      setError(err as Failure)
      users.again() // someone else may have changed them
      return false
    }
  }
  return (
    <>
      <h1>Users</h1>
      <p class="quiet">They log in with a password, on every node that uses this database.</p>
      {error && <Trouble error={error} />}
      {made && <Secret title={`Password of ${made.name}`} text={made.password} />}
      <Show of={users}>
        {(all) => (
          <>
            {all.users.length === 0 && (
              <Empty title="There are no users yet">
                <p>You are logged in with the token of the configuration. Add yourself as an admin below.</p>
              </Empty>
            )}
            {all.users.length > 0 && <List users={all.users} run={run} />}
            <AddUser add={(body) => run(post('/v1/users', { body }))} first={all.users.length === 0} />
          </>
        )}
      </Show>
    </>
  )
}

type Run = (request: Promise<unknown>) => Promise<boolean>

function List({ users, run }: { users: User[]; run: Run }) {
  return (
    <Table name="Users" columns={['User', 'Role', 'Last login', 'Created', 'Actions']}>
      {users.map((u) => (
        <Row key={u.name} user={u} run={run} />
      ))}
    </Table>
  )
}

function Row({ user: u, run }: { user: User; run: Run }) {
  const path = { name: u.name }
  const setRole = (role: Role) => run(put('/v1/users/{name}', { path, body: { role, version: u.version } }))
  const setPassword = () => {
    if (confirm(`Make a new password for ${u.name}? All sessions of ${u.name} end.`))
      void run(put('/v1/users/{name}/password', { path, body: {} }))
  }
  const remove = () => {
    if (confirm(`Remove ${u.name}? Sessions end and tokens of ${u.name} are revoked.`))
      void run(del('/v1/users/{name}', { path, body: { version: u.version } }))
  }
  return (
    <tr>
      <td>
        {u.name} {session.value?.user === u.name && <span class="quiet">(you)</span>}
      </td>
      <td>
        <select
          aria-label={`Role of ${u.name}`}
          value={u.role}
          onChange={async (e) => {
            const select = e.currentTarget
            if (!(await setRole(select.value as Role))) select.value = u.role
          }}
        >
          {Object.keys(roles).map((r) => (
            <option key={r}>{r}</option>
          ))}
        </select>
      </td>
      <td>{u.last_login ? instant(u.last_login) : 'never'}</td>
      <td>{instant(u.created)}</td>
      <td class="actions">
        <button type="button" class="small" onClick={setPassword}>
          New password
        </button>
        <button type="button" class="small" onClick={remove}>
          Remove
        </button>
      </td>
    </tr>
  )
}

function AddUser({
  add,
  first,
}: {
  add: (user: { name: string; role: Role; password?: string }) => Promise<boolean>
  first: boolean
}) {
  const [name, setName] = useState('')
  const [role, setRole] = useState<Role>(first ? 'admin' : 'viewer')
  const [password, setPassword] = useState('')
  return (
    <section class="card">
      <h2>Add a user</h2>
      <form
        onSubmit={async (e) => {
          e.preventDefault()
          if (!(await add({ name: name.trim(), role, password: password || undefined }))) return
          setName('')
          setPassword('')
        }}
      >
        <div class="form">
          <label>
            User name
            <input required autocomplete="off" value={name} onInput={(e) => setName(e.currentTarget.value)} />
          </label>
          <label>
            Role
            <select value={role} onChange={(e) => setRole(e.currentTarget.value as Role)}>
              {Object.keys(roles).map((r) => (
                <option key={r}>{r}</option>
              ))}
            </select>
          </label>
          <label>
            Password
            <input
              type="password"
              autocomplete="new-password"
              placeholder="empty: one is made"
              value={password}
              onInput={(e) => setPassword(e.currentTarget.value)}
            />
          </label>
          <button type="submit" class="primary" disabled={name.trim() === ''}>
            Add
          </button>
        </div>
        <p class="quiet">
          {role}: {roles[role]}.
        </p>
      </form>
    </section>
  )
}
