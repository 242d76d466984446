import { useEffect, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { type Failure, post } from '../api'
import { readAttributes, visible } from '../attributes'
import { instant, limit } from '../format'
import { query } from '../request'
import type { Attributes, Entitlement, TenantLimit, TenantView } from '../types'
import { Badge } from '../ui/badge'
import { Empty, Trouble } from '../ui/load'
import { Table } from '../ui/table'

// Tenants shows the limits of a tenant or a plan, where each number comes from, and its rows in the table of
// entitlements.
export function Tenants() {
  const { query: asked, route } = useLocation()
  const [text, setText] = useState(asked.q ?? '')
  const [view, setView] = useState<TenantView>()
  const [wrong, setWrong] = useState<Error>()
  const [turn, setTurn] = useState(0)
  const read = readAttributes(asked.q ?? '')
  useEffect(() => {
    setText(asked.q ?? '')
    setWrong(undefined)
    if (!asked.q) return setView(undefined)
    if (read.wrong) return setWrong(new Error(`invalid attribute "${read.wrong}": write name=value`))
    post('/v1/entitlements/show', { body: { attributes: read.found } }).then(setView, (err: Failure) => {
      setView(undefined)
      setWrong(err)
    })
  }, [asked.q, turn])
  return (
    <>
      <h1>Tenants</h1>
      <form
        class="row"
        onSubmit={(e) => {
          e.preventDefault()
          route(`/tenants${query({ q: text.trim() })}`)
        }}
      >
        <label class="grow">
          A tenant or a plan, by its attributes
          <input
            class="wide"
            placeholder="tenant=acme plan=gold"
            value={text}
            onInput={(e) => setText(e.currentTarget.value)}
          />
        </label>
        <button type="submit" class="primary">
          Show
        </button>
      </form>
      {wrong && <Trouble error={wrong} />}
      {!asked.q && (
        <Empty title="What are a tenant's limits, and where does each number come from?">
          <p>
            Rules with a rate such as <code>{'"{tenant.requests}/1h"'}</code> take their number from the table of
            entitlements. Rows can also be set with <code>penstock entitlements</code>.
          </p>
        </Empty>
      )}
      {view && (
        <>
          <h2>Limits</h2>
          <Limits of={view.limits} />
          <h2>Entitlements</h2>
          <Rows view={view} asked={read.found} changed={() => setTurn((n) => n + 1)} />
        </>
      )}
    </>
  )
}

function Limits({ of }: { of: TenantLimit[] }) {
  if (of.length === 0) {
    return (
      <p class="quiet">
        No rule reads these attributes. <a href="/rules">Rules</a> shows which attributes are keys.
      </p>
    )
  }
  return (
    <Table name="Limits" class="wide" columns={['Rule', 'Limit', 'For each', 'Number from', 'Until']}>
      {of.map((l) => (
        <tr key={l.policy}>
          <td>
            <a href={`/rules${query({ rule: l.rule })}`}>{l.policy}</a>{' '}
            {l.mode !== 'enforce' && <Badge kind={l.mode}>{l.mode}</Badge>}
          </td>
          <td>{limit(l.text)}</td>
          <td>{l.key.join(', ') || 'everybody'}</td>
          <td>
            {l.number.origin} {l.number.source && l.number.origin !== 'default' && <code>{l.number.source}</code>}
            {l.number.why && <div class="quiet">{visible(l.number.why)}</div>}
          </td>
          <td>{l.number.until ? instant(l.number.until) : ''}</td>
        </tr>
      ))}
    </Table>
  )
}

// Rows lists the rows of the tenant, and edits them.
function Rows(props: { view: TenantView; asked: Attributes; changed: () => void }) {
  const [error, setError] = useState<Failure>()
  const [warnings, setWarnings] = useState<string[]>([])
  const change = async (body: Parameters<typeof post<'/v1/entitlements'>>[1]['body']) => {
    try {
      const done = await post('/v1/entitlements', { body })
      setError(undefined)
      setWarnings(done.warnings)
      // Nodes learn of the change within a second.
      window.setTimeout(props.changed, 1000)
    } catch (err) {
      setError(err as Failure)
    }
  }
  const rows = props.view.entitlements
  return (
    <>
      {rows.length === 0 && (
        <p class="quiet">No entitlements for these attributes: limits use the plan or the default.</p>
      )}
      {rows.length > 0 && (
        <Table name="Entitlements" class="wide" columns={['For', 'Name', 'Number', 'Until', 'Changed', 'Actions']}>
          {rows.map((e) => (
            <Row
              key={`${e.attribute} ${e.value} ${e.limit}`}
              of={e}
              set={(number) => void change({ set: [{ ...keyOf(e), number, until: e.until }] })}
              remove={() => void change({ delete: [keyOf(e)] })}
            />
          ))}
        </Table>
      )}
      <NewRow {...props} set={(row) => void change({ set: [row] })} />
      {error && <Trouble error={error} />}
      {warnings.map((w) => (
        <p key={w} class="trouble" role="alert">
          {visible(w)}
        </p>
      ))}
    </>
  )
}

const keyOf = ({ attribute, value, limit }: Entitlement) => ({ attribute, value, limit })

function Row({ of, set, remove }: { of: Entitlement; set: (number: number) => void; remove: () => void }) {
  const [number, setNumber] = useState(String(of.number))
  useEffect(() => setNumber(String(of.number)), [of.number])
  const name = `${visible(of.attribute)}=${visible(of.value)}`
  return (
    <tr>
      <td>
        <code>{name}</code>
      </td>
      <td>{of.limit}</td>
      <td>
        <input
          aria-label={`Number of ${of.limit} for ${name}`}
          inputMode="numeric"
          pattern="[0-9]+"
          value={number}
          onInput={(e) => setNumber(e.currentTarget.value)}
        />
      </td>
      <td>{of.until ? instant(of.until) : ''}</td>
      <td>
        {instant(of.at)} by {visible(of.author)}
      </td>
      <td class="row">
        <button
          type="button"
          class="small"
          disabled={!/^\d+$/.test(number) || Number(number) === of.number}
          onClick={() => set(Number(number))}
        >
          Save
        </button>
        <button type="button" class="small danger" onClick={remove}>
          Delete
        </button>
      </td>
    </tr>
  )
}

// NewRow adds a row for one of the attributes that were asked for.
function NewRow(props: {
  view: TenantView
  asked: Attributes
  set: (row: { attribute: string; value: string; limit: string; number: number }) => void
}) {
  const known = props.view.readable.filter((r) => props.asked[r.attribute])
  const names = [...new Set(known.map((r) => `${r.attribute}.${r.limit}`))]
  const [name, setName] = useState('')
  const [number, setNumber] = useState('')
  const chosen = names.includes(name) ? name : (names[0] ?? '')
  if (names.length === 0)
    return (
      <p class="quiet">
        No limit reads an entitlement of these attributes. To use one, write its attribute and name as the rate of a
        limit.
      </p>
    )
  const [attribute = '', limit = ''] = chosen.split('.')
  const max = Math.min(...known.filter((r) => `${r.attribute}.${r.limit}` === chosen).map((r) => r.max))
  return (
    <form
      class="row"
      onSubmit={(e) => {
        e.preventDefault()
        props.set({ attribute, value: props.asked[attribute] ?? '', limit, number: Number(number) })
        setNumber('')
      }}
    >
      <label>
        Name{' '}
        <select value={chosen} onChange={(e) => setName(e.currentTarget.value)}>
          {names.map((n) => (
            <option key={n}>{n}</option>
          ))}
        </select>
      </label>
      <label>
        Number, at most {max}{' '}
        <input
          required
          inputMode="numeric"
          pattern="[0-9]+"
          value={number}
          onInput={(e) => setNumber(e.currentTarget.value)}
        />
      </label>
      <button type="submit">Set</button>
    </form>
  )
}
