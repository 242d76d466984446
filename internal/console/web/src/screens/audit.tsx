import { useEffect, useState } from 'preact/hooks'
import { type Failure, get } from '../api'
import { instant } from '../format'
import type { Audit as Page } from '../types'
import { Empty, Trouble } from '../ui/load'
import { Table } from '../ui/table'

export function Audit() {
  const [pages, setPages] = useState<Page[]>([])
  const [wrong, setWrong] = useState<Failure>()
  const more = async (before?: number) => {
    try {
      const page = await get('/v1/audit', { query: { before, limit: 50 } })
      setPages((had) => (before ? [...had, page] : [page]))
    } catch (err) {
      setWrong(err as Failure)
    }
  }
  useEffect(() => {
    void more()
  }, [])
  const deeds = pages.flatMap((p) => p.events)
  const next = pages.at(-1)?.next
  return (
    <>
      <h1>Audit</h1>
      <p class="quiet">All changes and who made them. Entries cannot be edited.</p>
      {wrong && <Trouble error={wrong} />}
      {pages.length > 0 && deeds.length === 0 && (
        <Empty title="No changes yet">
          <p>
            Changes of rules, resets, bans and overrides are recorded here. <a href="/rules">Change a rule</a> to see
            the first entry.
          </p>
        </Empty>
      )}
      {deeds.length > 0 && (
        <Table name="Audit log" class="wide" columns={['When', 'User', 'Action', 'Version', 'Details']}>
          {deeds.map((d) => (
            <tr key={d.number}>
              <td>{instant(d.at)}</td>
              <td>{d.actor}</td>
              <td>{d.action}</td>
              <td>{d.version ?? ''}</td>
              <td class="lines">{d.detail}</td>
            </tr>
          ))}
        </Table>
      )}
      {next !== undefined && (
        <button type="button" onClick={() => void more(next)}>
          Earlier
        </button>
      )}
    </>
  )
}
