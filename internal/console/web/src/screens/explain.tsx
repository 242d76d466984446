import { useEffect, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { type Failure, post } from '../api'
import { attributes, readAttributes } from '../attributes'
import { instant, limit } from '../format'
import { query } from '../request'
import type { Explanation, LimitNumber } from '../types'
import { Badge } from '../ui/badge'
import { Empty, Trouble } from '../ui/load'
import { Table } from '../ui/table'

export function Explain() {
  const { query: asked, route } = useLocation()
  const [text, setText] = useState(asked.q ?? '')
  const [found, setFound] = useState<Explanation>()
  const [wrong, setWrong] = useState<Error>()
  useEffect(() => {
    setText(asked.q ?? '')
    setFound(undefined)
    setWrong(undefined)
    if (!asked.q) return
    const read = readAttributes(asked.q)
    if (read.wrong) {
      setWrong(new Error(`invalid attribute "${read.wrong}": write name=value`))
      return
    }
    post('/v1/explain', { body: { attributes: read.found } }).then(setFound, (err: Failure) => setWrong(err))
  }, [asked.q])
  return (
    <>
      <h1>Explain</h1>
      <form
        class="row"
        onSubmit={(e) => {
          e.preventDefault()
          route(`/explain${query({ q: text.trim() })}`)
        }}
      >
        <label class="grow">
          Attributes of the request
          <input
            class="wide"
            placeholder="method=GET path=/search user=u1 ip=198.51.100.7"
            value={text}
            onInput={(e) => setText(e.currentTarget.value)}
          />
        </label>
        <button type="submit" class="primary">
          Explain
        </button>
      </form>
      {wrong && <Trouble error={wrong} />}
      {!asked.q && (
        <Empty title="See which rules apply to a request, and why the others do not">
          <p>
            Nothing is charged. You can also explain a denied request from the <a href="/tail?denied=true">live tail</a>
            .
          </p>
        </Empty>
      )}
      {found && <Result found={found} />}
    </>
  )
}

// limitFrom is a limit, and where its number comes from unless that is the document.
function limitFrom(text: string, number?: LimitNumber) {
  if (!number?.max) return limit(text)
  return `${limit(text)} (${number.origin}${number.why ? `: ${number.why}` : ` ${number.source}`})`
}

function Result({ found }: { found: Explanation }) {
  return (
    <>
      {found.block && (
        <p>
          <Badge kind="denied">blocked</Badge> An operator has blocked this client until {instant(found.block.until)}:{' '}
          {found.block.reason}. Without the block:
        </p>
      )}
      {found.list && (
        <p>
          <Badge kind={found.list === 'deny' ? 'denied' : 'allowed'}>{found.list} list</Badge> Entry {found.entry}{' '}
          decides, and no rule applies. Without it:
        </p>
      )}
      <Table name="Rules" class="wide" columns={['Rule', 'Applies', 'Reason', 'Key', 'Limits']}>
        {found.rules.map((r) => (
          <tr key={r.rule} class={r.applies ? '' : 'off'}>
            <td>
              <a href={`/rules${query({ rule: r.rule })}`}>{r.rule}</a>{' '}
              {r.mode !== 'enforce' && <Badge kind={r.mode}>{r.mode}</Badge>}
            </td>
            <td>{r.applies ? <Badge kind="allowed">yes</Badge> : <Badge kind="plain">no</Badge>}</td>
            <td>
              {r.why ?? (r.override !== undefined ? `override ${r.override + 1} applies` : 'every condition is met')}
              {r.failures?.map((f) => (
                <div key={f} class="trouble">
                  {f}
                </div>
              ))}
            </td>
            <td>{r.key && <code>{attributes(r.key) || 'everybody'}</code>}</td>
            <td>
              {r.unlimited ? 'unlimited' : r.limits?.map((text, i) => limitFrom(text, r.numbers?.[i])).join(', ')}
            </td>
          </tr>
        ))}
      </Table>
      {found.rules.length === 0 && (
        <p class="quiet">
          There are no rules, so nothing is limited. <a href="/rules">Rules</a> shows how to write the first one.
        </p>
      )}
    </>
  )
}
