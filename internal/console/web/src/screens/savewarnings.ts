import type { Preview } from '../types'

// warnedShare is the share of recent requests from which on a change is confirmed.
export const warnedShare = 0.05

// warningsOf returns why a document should not be saved without a second thought.
export function warningsOf(p: Pick<Preview, 'calls' | 'newly_denied' | 'deny_all'>): string[] {
  const found = p.deny_all.map((rule) => `${rule} has a limit of 0: it denies every request under it.`)
  const share = p.calls > 0 ? p.newly_denied / p.calls : 0
  if (share > warnedShare) {
    const percent = Math.round(100 * share)
    found.push(
      `These rules would have denied ${percent} % of the last ${p.calls} requests, which the current rules allow.`,
    )
  }
  return found
}
