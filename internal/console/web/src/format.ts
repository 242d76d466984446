import { signal } from '@preact/signals'

// Instants are shown in the user's own time zone, or in UTC, as on servers and in logs.
export const utc = signal(localStorage.getItem('penstock-utc') === 'yes')

// zone names the clock of all times that are shown: UTC, or the user's own with its offset.
export function zone(now = new Date()): string {
  if (utc.value) return 'UTC'
  const parts = new Intl.DateTimeFormat('en', { timeZoneName: 'shortOffset' }).formatToParts(now)
  const offset = parts.find((p) => p.type === 'timeZoneName')?.value.replace('GMT', 'UTC')
  return offset && offset !== 'UTC' ? `Local time (${offset})` : 'Local time'
}

export function toggleUTC() {
  utc.value = !utc.value
  localStorage.setItem('penstock-utc', utc.value ? 'yes' : 'no')
}

export function time(at: string | number | Date): string {
  return new Date(at).toLocaleTimeString(undefined, { hourCycle: 'h23', timeZone: utc.value ? 'UTC' : undefined })
}

export function instant(at: string | number | Date): string {
  const d = new Date(at)
  const text = d.toLocaleString(undefined, {
    dateStyle: 'medium',
    timeStyle: 'medium',
    hourCycle: 'h23',
    timeZone: utc.value ? 'UTC' : undefined,
  })
  return utc.value ? `${text} UTC` : text
}

// inputTime is the value of an input of type datetime-local, by the same clock as all times that are shown.
export function inputTime(at: Date): string {
  const offset = utc.value ? 0 : at.getTimezoneOffset() * 60_000
  return new Date(at.getTime() - offset).toISOString().slice(0, 19)
}

// parseInputTime returns the instant in an input of type datetime-local.
export const parseInputTime = (text: string) => new Date(utc.value ? `${text}Z` : text)

export function count(n: number): string {
  if (n >= 1e9) return `${(n / 1e9).toFixed(1)}G`
  if (n >= 1e6) return `${(n / 1e6).toFixed(1)}M`
  if (n >= 1e4) return `${(n / 1e3).toFixed(1)}k`
  return `${Math.round(n * 10) / 10}`
}

export function percent(part: number, whole: number): string {
  if (whole === 0) return '0 %'
  const p = (100 * part) / whole
  return `${p > 0 && p < 0.1 ? '< 0.1' : p < 10 ? p.toFixed(1) : p.toFixed(0)} %`
}

// limit shortens durations such as Go's 1m0s, and writes algorithms in words.
export function limit(text: string): string {
  return text
    .replace(/(\d)m0s/g, '$1m')
    .replace(/(\d)h0m\b/g, '$1h')
    .replaceAll('_', ' ')
}

export function duration(ms: number | null): string {
  if (ms === null) return 'never'
  if (ms === 0) return '0 s'
  if (ms < 1) return `${(ms * 1000).toFixed(0)} µs`
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : ms.toFixed(0)} ms`
  const s = ms / 1000
  if (s < 60) return `${s < 10 ? Math.round(s * 10) / 10 : Math.round(s)} s`
  if (s < 3600) return `${Math.floor(s / 60)} min${s % 60 >= 1 ? ` ${Math.round(s % 60)} s` : ''}`
  if (s < 86400) return `${Math.floor(s / 3600)} h${s % 3600 >= 60 ? ` ${Math.round((s % 3600) / 60)} min` : ''}`
  return `${Math.floor(s / 86400)} d${s % 86400 >= 3600 ? ` ${Math.round((s % 86400) / 3600)} h` : ''}`
}
