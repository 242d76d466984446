import { attributes } from '../attributes'
import { count, percent, time } from '../format'
import type { Preview } from '../types'
import { num, Table } from '../ui/table'

export function PreviewResult({ preview: p }: { preview: Preview }) {
  if (p.calls === 0) return <p class="quiet">No recent requests to replay yet: send some and preview again.</p>
  const all = (c: Preview['current']) => c.allowed + c.denied
  const changed = p.rules.filter(
    (r) => r.current?.denied !== r.proposed?.denied || r.current?.shadow !== r.proposed?.shadow,
  )
  return (
    <section>
      <h2>Effect on recent requests</h2>
      <p class="quiet">
        {count(p.calls)} requests from {time(p.from)} to {time(p.to)}, which represent about {count(p.stands_for)},
        decided again.
      </p>
      <p>
        Denied: now <strong>{percent(p.current.denied, all(p.current))}</strong>, with these rules{' '}
        <strong>{percent(p.proposed.denied, all(p.proposed))}</strong>: {count(p.newly_denied)} more requests denied,{' '}
        {count(p.newly_allowed)} more allowed. Shadow rules would deny {count(p.proposed.shadow)}.
      </p>
      {changed.length === 0 ? (
        <p class="quiet">No rule would deny more or fewer requests.</p>
      ) : (
        <Table
          name="Changed rules"
          columns={['Rule', num('Denied now'), num('Then'), num('Would deny in shadow mode now'), num('Then')]}
        >
          {changed.map((r) => (
            <tr key={r.rule}>
              <td>{r.rule}</td>
              <td class="num">{r.current ? r.current.denied : 'no such rule'}</td>
              <td class="num">{r.proposed ? r.proposed.denied : 'no such rule'}</td>
              <td class="num">{r.current?.shadow ?? ''}</td>
              <td class="num">{r.proposed?.shadow ?? ''}</td>
            </tr>
          ))}
        </Table>
      )}
      {p.keys.length > 0 && (
        <>
          <h3>Clients with the most changes</h3>
          <Table name="Changed clients" columns={['Client', 'Rule', num('Denied now'), num('Then')]}>
            {p.keys.map((k, i) => (
              <tr key={i}>
                <td>
                  <code>{attributes(k.key) || 'everybody'}</code>
                </td>
                <td>{k.rule}</td>
                <td class="num">{k.current_denied}</td>
                <td class="num">{k.proposed_denied}</td>
              </tr>
            ))}
          </Table>
        </>
      )}
    </section>
  )
}
