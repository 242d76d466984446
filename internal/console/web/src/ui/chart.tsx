import { useEffect, useMemo, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { count, time, utc } from '../format'
import { dark } from '../theme'
import type { Counts } from '../types'

export interface Line {
  label: string
  color: string // the name of a custom property
  values: number[]
  fill?: boolean
  apart?: boolean // not stacked on the others: it counts some requests a second time
}

const color = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

interface ChartProps {
  at: number[]
  lines: Line[]
  height?: number
  stacked?: boolean
  unit?: string
}

// Chart draws lines over time; if they are stacked, later lines are on top of earlier ones. Its label contains the
// last values, for screen readers.
export function Chart({ at, lines, height = 220, stacked = false, unit = '' }: ChartProps) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(undefined)
  const shape = lines.map((l) => l.label).join('|') + dark.value + utc.value + height + stacked
  const data = useMemo(
    () => [at, ...(stacked ? stack(lines) : lines.map((l) => l.values))] as uPlot.AlignedData,
    [at, lines, stacked],
  )
  const latest = useRef(lines)
  latest.current = lines
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
  useEffect(() => plot.current?.setData(data), [data])
  const last = lines.map((l) => `${l.label} ${count(l.values.at(-1) ?? 0)}${unit}`).join(', ')
  return <div class="chart" ref={box} role="img" aria-label={`Over time; last: ${last}`} />
}

// options configures how uPlot draws the lines. The legend reads their values when it is shown, since a plot outlives
// them.
function options(lines: { current: Line[] }, stacked: boolean, unit: string): Omit<uPlot.Options, 'width' | 'height'> {
  const axis = {
    stroke: color('--quiet'),
    grid: { stroke: color('--line'), width: 1 },
    ticks: { stroke: color('--line'), width: 1 },
  }
  // Stacked lines are drawn from the top down, each over a part of the previous one.
  const order = stacked ? [...lines.current].reverse() : lines.current
  const series = order.map((l, i): uPlot.Series => {
    const index = stacked ? order.length - 1 - i : i
    return {
      label: l.label,
      stroke: color(l.color),
      width: 1.5,
      fill: l.fill ? `${color(l.color)}33` : undefined,
      points: { show: false },
      value: (_: uPlot, __: number, ___: number, at: number | null) =>
        at === null ? '' : count(lines.current[index]?.values[at] ?? 0) + unit,
    }
  })
  return {
    legend: { live: true },
    cursor: { y: false },
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

// stack adds up lines, and returns the sums from the top down.
function stack(lines: Line[]): number[][] {
  const sums: number[][] = []
  for (const line of lines) {
    const below = line.apart ? undefined : sums.at(-1)
    sums.push(line.values.map((v, i) => v + (below?.[i] ?? 0)))
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
      aria-label={`${count(values.reduce((a, b) => a + b, 0))} in all`}
    >
      <polyline points={points.join(' ')} class={color} />
    </svg>
  )
}
