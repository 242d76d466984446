import { useId, useState } from 'preact/hooks'
import { numberText, points, ticks } from '../plot'
import type { ToolReport } from '../types'

type ChartPart = NonNullable<ToolReport['page']['parts'][number]['chart']>

// Plot draws the lines of a report. A slider reads the values of one point, for keyboards, phones and screen readers.
export function Plot({ chart: { caption, axis, from, to, marks, lines } }: { chart: ChartPart }) {
  const [chosen, setChosen] = useState(0)
  const id = useId()
  const length = Math.max(0, ...lines.map((l) => l.values.length))
  const scale = ticks(Math.max(0, ...lines.flatMap((l) => l.values)))
  const top = scale.at(-1) ?? 1
  const [first, last] = marks ? [marks[0], marks.at(-1)] : [from, to]
  const place = (i: number) => (marks ? `${axis} ${marks[i]}` : `${i + 1} of ${length}`)
  const reading = lines.map((l) => `${l.name} ${numberText(l.values[chosen] ?? 0)}`).join(', ')
  return (
    <figure class="plot">
      <figcaption id={id}>{caption}</figcaption>
      <ul class="plot-legend">
        {lines.map((l, i) => (
          <li key={l.name} class={`line-${i % 4}`}>
            {l.name}
          </li>
        ))}
      </ul>
      <div class="plot-area">
        <ol class="plot-scale" aria-hidden="true">
          {[...scale].reverse().map((v) => (
            <li key={v}>{numberText(v)}</li>
          ))}
        </ol>
        <svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-labelledby={id}>
          {scale.map((v) => (
            <line key={v} class="grid" x1="0" x2="100" y1={100 - (100 * v) / top} y2={100 - (100 * v) / top} />
          ))}
          <line
            class="cursor"
            x1={(100 * chosen) / Math.max(1, length - 1)}
            x2={(100 * chosen) / Math.max(1, length - 1)}
            y1="0"
            y2="100"
          />
          {lines.map((l, i) => (
            <polyline key={l.name} class={`line-${i % 4}`} points={points(l.values, top)} />
          ))}
        </svg>
        <input
          type="range"
          min={0}
          max={Math.max(0, length - 1)}
          value={chosen}
          aria-label={`Point of: ${caption}`}
          aria-valuetext={`${place(chosen)}: ${reading}`}
          onInput={(e) => setChosen(Number(e.currentTarget.value))}
        />
        <p class="plot-ends">
          <span>{first}</span>
          <span>{axis}</span>
          <span>{last}</span>
        </p>
      </div>
      <p class="plot-reading">
        <strong>{place(chosen)}</strong>: {reading}
      </p>
    </figure>
  )
}
