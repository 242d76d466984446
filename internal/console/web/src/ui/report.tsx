import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Failure } from '../api'
import type { ToolReport } from '../types'
import { Copy, Trouble } from './load'
import { Plot } from './plot'
import './report.css'

type Part = ToolReport['page']['parts'][number]
type ReportTable = NonNullable<Part['table']>

// useTool runs one request at a time. It is cancelled when the user cancels it or leaves the screen.
export function useTool() {
  const [report, setReport] = useState<ToolReport>()
  const [error, setError] = useState<Error>()
  const [running, setRunning] = useState<AbortController>()
  const latest = useRef<AbortController>(undefined)
  useEffect(() => () => latest.current?.abort(), [])
  const run = async (ask: (signal: AbortSignal) => Promise<ToolReport>) => {
    latest.current?.abort()
    const mine = new AbortController()
    latest.current = mine
    setRunning(mine)
    setError(undefined)
    setReport(undefined)
    try {
      const found = await ask(mine.signal)
      if (!mine.signal.aborted) setReport(found)
    } catch (err) {
      if (!mine.signal.aborted) setError(err instanceof Failure ? err : new Error(String(err)))
    }
    if (latest.current === mine) setRunning(undefined)
  }
  return { report, error, running, run }
}

interface ToolFormProps {
  tool: ReturnType<typeof useTool>
  name: string // of the file
  action: string
  ask: (signal: AbortSignal) => Promise<ToolReport>
  children: ComponentChildren
}

// ToolForm is the input of a tool and, below it, the result.
export function ToolForm({ tool, name, action, ask, children }: ToolFormProps) {
  return (
    <>
      <form
        class="card"
        onSubmit={(e) => {
          e.preventDefault()
          void tool.run(ask)
        }}
      >
        {children}
        <div class="row">
          <button type="submit" class="primary" disabled={tool.running !== undefined}>
            {action}
          </button>
          {tool.running && (
            <>
              <button type="button" onClick={() => tool.running?.abort()}>
                Cancel
              </button>
              <span role="status">Running on this node…</span>
            </>
          )}
        </div>
      </form>
      {tool.error && <Trouble error={tool.error} />}
      {tool.report && <Report report={tool.report} name={name} />}
    </>
  )
}

// Report shows the result of a tool. The file to share is the one that the command writes.
function Report({ report: { page, html }, name }: { report: ToolReport; name: string }) {
  const download = () => {
    const link = document.createElement('a')
    link.href = URL.createObjectURL(new Blob([html], { type: 'text/html' }))
    link.download = `${name}.html`
    link.click()
    URL.revokeObjectURL(link.href)
  }
  return (
    <section class="report" aria-label={page.title}>
      <div class="head">
        <h2>{page.title}</h2>
        <span class="grow" />
        <button type="button" onClick={download}>
          Download as a file
        </button>
      </div>
      {page.parts.map((part, i) => (
        <ReportPart key={i} part={part} />
      ))}
    </section>
  )
}

function ReportPart({ part: { text, code, table, chart } }: { part: Part }) {
  if (table) return <Table table={table} />
  if (chart) return <Plot chart={chart} />
  if (code !== undefined) {
    return (
      <div class="copy">
        <Copy text={code} />
        <pre tabIndex={0}>{code}</pre>
      </div>
    )
  }
  return <p class="lines">{text}</p>
}

// Columns without a name are told apart for screen readers and on phones.
const columnName = (name: string, index: number) => name || (index === 0 ? 'What' : 'Value')

function Table({ table: { caption, columns, rows } }: { table: ReportTable }) {
  const numeric = columns.map(
    (_, i) => rows.length > 0 && rows.every((row) => /^([+\-~≈]?\d|–?$|✗$)/.test(row[i] ?? '')),
  )
  return (
    <>
      {caption && <h3>{caption}</h3>}
      <div class="scroll" role="region" aria-label={caption || 'Result'} tabIndex={0}>
        <table>
          <thead>
            <tr>
              {columns.map((name, i) => (
                <th key={i} class={numeric[i] ? 'num' : ''}>
                  {columnName(name, i)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, i) => (
              <tr key={i}>
                {row.map((cell, j) => (
                  <td key={j} class={numeric[j] ? 'num' : ''}>
                    {cell}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}
