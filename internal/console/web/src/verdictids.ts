// verdictIDs returns what identifies each verdict of a list, newest first, as newer ones are put before it: its time and,
// among verdicts of one time, how many are older.
export function verdictIDs(list: { at: string }[]): string[] {
  const older = new Map<string, number>()
  const ids = list.toReversed().map(({ at }) => {
    const n = older.get(at) ?? 0
    older.set(at, n + 1)
    return `${at} ${n}`
  })
  return ids.reverse()
}
