import { useEffect, useMemo, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { count, time, utc } from '../format'
import { dark } from '../theme'
import type { Counts } from '../types'

export interface Line {
  label: string
  color: string // the name of a custom property
  values: (number | null)[] // null: unknown
  fill?: boolean
  apart?: boolean // not stacked on the others: it counts some requests a second time
}

const color = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

// ChartMark is a vertical line with a name.
export interface ChartMark {
  at: number
  label: string
  color: string
}

interface ChartProps {
  at: number[]
  marks?: ChartMark[]
  zoom?: (from: number, to: number) => void // called with the period that is selected by dragging
  lines: Line[]
  height?: number
  stacked?: boolean
  unit?: string
}

// Chart draws lines over time; if they are stacked, later lines are on top of earlier ones. Its label contains the
// last values, for screen readers.
export function Chart({ at, lines, height = 220, stacked = false, unit = '', marks = [], zoom }: ChartProps) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(undefined)
  const shape = lines.map((l) => l.label).join('|') + dark.value + utc.value + height + stacked
  const data = useMemo(
    () => [at, ...(stacked ? stack(lines) : lines.map((l) => l.values))] as uPlot.AlignedData,
    [at, lines, stacked],
  )
  const latest = useRef({ lines, marks, zoom })
  latest.current = { lines, marks, zoom }
  useEffect(() => {
    if (!box.current) return
    const width = () => box.current?.clientWidth ?? 300
    const made = new uPlot({ width: width(), height, ...options(latest, stacked, unit) }, data, box.current)
    plot.current = made
    const resized = new ResizeObserver(() => made.setSize({ width: width(), height }))
    resized.observe(box.current)
    return () => {
      resized.disconnect()
      made.destroy()
    }
  }, [shape])
  useEffect(() => plot.current?.setData(data), [data, marks])
  const last = lines.map((l) => `${l.label} ${count(l.values.at(-1) ?? 0)}${unit}`).join(', ')
  return (
    <div class="chart" role="img" aria-label={`Over time; last: ${last}`}>
      <div ref={box} />
    </div>
  )
}

// options configures how uPlot draws the lines. The legend reads their values when it is shown, since a plot outlives
// them.
function options(
  latest: { current: { lines: Line[]; marks: ChartMark[]; zoom?: (from: number, to: number) => void } },
  stacked: boolean,
  unit: string,
): Omit<uPlot.Options, 'width' | 'height'> {
  const axis = {
    stroke: color('--quiet'),
    grid: { stroke: color('--line'), width: 1 },
    ticks: { stroke: color('--line'), width: 1 },
  }
  // Stacked lines are drawn from the top down, each over a part of the previous one.
  const { lines } = latest.current
  const order = stacked ? [...lines].reverse() : lines
  const series = order.map((l, i): uPlot.Series => {
    const index = stacked ? order.length - 1 - i : i
    return {
      label: l.label,
      stroke: color(l.color),
      width: 1.5,
      fill: l.fill ? `${color(l.color)}33` : undefined,
      points: { show: false },
      value: (_: uPlot, __: number, ___: number, at: number | null) =>
        at === null ? '' : read(latest.current.lines[index]?.values[at], unit),
    }
  })
  return {
    legend: { live: true },
    cursor: { y: false, drag: { x: latest.current.zoom !== undefined, y: false, setScale: false } },
    hooks: {
      draw: [(u) => drawMarks(u, latest.current.marks)],
      setSelect: [
        (u) => {
          const { left, width } = u.select
          if (width < 4) return
          latest.current.zoom?.(u.posToVal(left, 'x'), u.posToVal(left + width, 'x'))
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
        },
      ],
    },
    tzDate: (ts) => (utc.value ? uPlot.tzDate(new Date(ts * 1000), 'Etc/UTC') : new Date(ts * 1000)),
    scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [
      { ...axis, values: (_, ticks) => ticks.map((t) => time(t * 1000).replace(/:00$/, '')) },
      { ...axis, size: 56, values: (_, ticks) => ticks.map((v) => count(v) + unit) },
    ],
    // A stacked line is filled down to the line below it only.
    bands: order.flatMap((l, i) =>
      stacked && l.fill && order[i + 1] ? [{ series: [i + 1, i + 2] as [number, number] }] : [],
    ),
    series: [{}, ...series],
  }
}

const read = (value: number | null | undefined, unit: string) =>
  value === null || value === undefined ? 'no data' : count(value) + unit

// drawMarks draws vertical lines within the plot.
function drawMarks(u: uPlot, marks: ChartMark[]) {
  const { ctx, bbox } = u
  ctx.save()
  for (const m of marks) {
    const x = u.valToPos(m.at, 'x', true)
    if (x < bbox.left || x > bbox.left + bbox.width) continue
    ctx.strokeStyle = color(m.color)
    ctx.lineWidth = devicePixelRatio
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio])
    ctx.beginPath()
    ctx.moveTo(x, bbox.top)
    ctx.lineTo(x, bbox.top + bbox.height)
    ctx.stroke()
  }
  ctx.restore()
}

// stack adds up lines, and returns the sums from the top down.
function stack(lines: Line[]): (number | null)[][] {
  const sums: (number | null)[][] = []
  for (const line of lines) {
    const below = line.apart ? undefined : sums.at(-1)
    sums.push(line.values.map((v, i) => (v === null ? null : v + (below?.[i] ?? 0))))
  }
  return sums.reverse()
}

// Spark is a line that is small enough for a table.
export function Spark({ series, of, color }: { series: Counts[]; of: (c: Counts) => number; color: string }) {
  const values = series.map(of)
  const top = Math.max(1, ...values)
  const step = 100 / Math.max(1, values.length - 1)
  const points = values.map((v, i) => `${(i * step).toFixed(1)},${(23 - (22 * v) / top).toFixed(1)}`)
  return (
    <svg
      class="spark"
      viewBox="0 0 100 24"
      preserveAspectRatio="none"
      role="img"
      aria-label={`${count(values.reduce((a, b) => a + b, 0))} total`}
    >
      <polyline points={points.join(' ')} class={color} />
    </svg>
  )
}
