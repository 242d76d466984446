import { Fragment } from 'preact'
import { useState } from 'preact/hooks'
import { mayChange } from '../api'
import { attributes, visible, writeAttributes } from '../attributes'
import { duration, time } from '../format'
import { query } from '../request'
import type { Verdict } from '../types'
import { verdictIDs } from '../verdictids'
import { Answer, Badge } from './badge'
import { Table } from './table'

// Calls lists verdicts, newest first. Each can be opened to see every limit.
export function Calls({ list }: { list: Verdict[] }) {
  const [open, setOpen] = useState('')
  if (list.length === 0) {
    return (
      <p class="quiet">
        No request of this client was kept. The <a href="/tail">live tail</a> shows requests as they are decided.
      </p>
    )
  }
  const ids = verdictIDs(list)
  return (
    <Table name="Requests" class="wide calls" columns={['When', 'Result', 'Rule', 'Request', 'Wait']}>
      {list.map((v, i) => {
        const id = ids[i] ?? ''
        return (
          <Fragment key={id}>
            <tr>
              <td>
                <button
                  type="button"
                  class="link"
                  aria-expanded={open === id}
                  onClick={() => setOpen(open === id ? '' : id)}
                >
                  {time(v.at)}
                </button>
              </td>
              <td>
                <Answer allowed={v.allowed} />{' '}
                {v.reason !== 'ok' && v.reason !== 'over_limit' && (
                  <Badge kind="plain">{v.reason.replaceAll('_', ' ')}</Badge>
                )}{' '}
                {v.quality !== 'exact' && <Badge kind="shadow">{v.quality}</Badge>}{' '}
                {v.shadow.map((s) => (
                  <Badge key={s} kind="shadow">
                    {s} would deny
                  </Badge>
                ))}
              </td>
              <td>{v.rule}</td>
              <td class="cut">
                <code>{attributes(v.attributes)}</code>
              </td>
              <td>{v.allowed ? '' : duration(v.retry_after_ms)}</td>
            </tr>
            {open === id && (
              <tr>
                <td colSpan={5}>
                  <Detail verdict={v} />
                </td>
              </tr>
            )}
          </Fragment>
        )
      })}
    </Table>
  )
}

function Detail({ verdict: v }: { verdict: Verdict }) {
  return (
    <div class="detail">
      <dl>
        {Object.entries(v.attributes).map(([name, value]) => (
          <Fragment key={name}>
            <dt>{visible(name)}</dt>
            <dd>
              <code>{visible(value)}</code>
            </dd>
          </Fragment>
        ))}
        <dt>cost</dt>
        <dd>{v.cost}</dd>
        <dt>rules</dt>
        <dd>version {v.rules_version}</dd>
        <dt>node</dt>
        <dd>{visible(v.node)}</dd>
      </dl>
      <table>
        <thead>
          <tr>
            <th>Limit</th>
            <th>Key</th>
            <th>Decision</th>
            <th class="num">Used</th>
            <th class="num">Limit</th>
            <th>Resets in</th>
          </tr>
        </thead>
        <tbody>
          {v.limits.map((l) => (
            <tr key={l.policy}>
              <td>
                {l.policy}
                {l.shadow ? ' (shadow)' : ''}
              </td>
              <td>
                <code>{attributes(v.keys.find((k) => k.rule === l.rule)?.key ?? {})}</code>
              </td>
              <td>
                <Answer allowed={l.allowed} />
              </td>
              <td class="num">{l.used}</td>
              <td class="num">{l.limit}</td>
              <td>{duration(l.reset_after_ms)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {mayChange() && (
        <p>
          <a class="button" href={`/explain${query({ q: writeAttributes(v.attributes) })}`}>
            Explain this request
          </a>
        </p>
      )}
    </div>
  )
}
