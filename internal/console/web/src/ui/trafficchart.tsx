import { useState } from 'preact/hooks'
import { del, type Failure, mayChange, post } from '../api'
import { instant } from '../format'
import { type Points, rates } from '../series'
import type { History } from '../types'
import { Annotate } from './annotate'
import { Chart } from './chart'
import { Trouble } from './load'
import { offerUndo } from './undo'

type Mark = History['marks'][number]

const kinds: Record<string, { label: string; color: string }> = {
  start: { label: 'Node started', color: '--quiet' },
  stop: { label: 'Node stopped', color: '--quiet' },
  rules: { label: 'Rules changed', color: '--accent' },
  circuit_open: { label: 'Circuit breaker opened', color: '--denied' },
  circuit_closed: { label: 'Circuit breaker closed', color: '--allowed' },
  annotation: { label: 'Annotation', color: '--shadow' },
}

const nameOf = (m: Mark) => kinds[m.kind]?.label ?? m.kind.replaceAll('_', ' ')

interface TrafficChartProps {
  of: Points
  step_ms: number
  marks: Mark[]
  marked: () => void // called when an annotation has been added or deleted
  rule?: string // that new annotations are about
  zoom?: (from: number, to: number) => void
  height?: number
}

// TrafficChart draws the requests per second over time, with what happened meanwhile.
export function TrafficChart({ of, step_ms, marks, marked, rule, zoom, height }: TrafficChartProps) {
  return (
    <>
      <Chart
        at={of.at}
        stacked
        height={height}
        zoom={zoom}
        marks={marks.map((m) => ({
          at: Date.parse(m.at) / 1000,
          label: nameOf(m),
          color: kinds[m.kind]?.color ?? '--quiet',
        }))}
        lines={[
          { label: 'allowed', color: '--allowed', values: rates(of, step_ms, (c) => c.allowed), fill: true },
          { label: 'denied', color: '--denied', values: rates(of, step_ms, (c) => c.denied), fill: true },
          { label: 'shadow would deny', color: '--shadow', values: rates(of, step_ms, (c) => c.shadow), apart: true },
        ]}
      />
      {zoom && <p class="quiet">Drag over the chart to zoom.</p>}
      <Annotate rule={rule} done={marked} />
      <Marks list={marks} changed={marked} />
    </>
  )
}

// Marks lists what happened, newest first.
function Marks({ list, changed }: { list: Mark[]; changed: () => void }) {
  if (list.length === 0) return null
  return (
    <details class="marks">
      <summary>
        {list.length === 1 ? 'One event' : `${list.length} events`} in this period: {nameOf(list.at(-1)!)},{' '}
        {instant(list.at(-1)!.at)}
      </summary>
      <ul class="list">
        {[...list].reverse().map((m) => (
          <li key={m.at + m.kind + m.node + m.id}>
            {instant(m.at)}: <strong>{nameOf(m)}</strong> {m.text} {m.node && <span class="quiet">on {m.node}</span>}
            {m.author && (
              <span class="quiet">
                {m.rule && `about ${m.rule} `}by {m.author}
              </span>
            )}{' '}
            {m.id && mayChange() && <DeleteAnnotation mark={m} id={m.id} done={changed} />}
          </li>
        ))}
      </ul>
    </details>
  )
}

function DeleteAnnotation({ mark: m, id, done }: { mark: Mark; id: string; done: () => void }) {
  const [error, setError] = useState<Failure>()
  const restore = async () => {
    await post('/v1/annotations', { body: { at: m.at, rule: m.rule, text: m.text } })
    done()
  }
  const remove = async () => {
    try {
      await del('/v1/annotations/{id}', { path: { id } })
      offerUndo(`Deleted the annotation “${m.text}”.`, restore)
      done()
    } catch (err) {
      setError(err as Failure)
    }
  }
  return (
    <>
      <button type="button" class="small" onClick={() => void remove()}>
        Delete
      </button>
      {error && <Trouble error={error} />}
    </>
  )
}
