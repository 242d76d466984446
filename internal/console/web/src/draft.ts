// A draft is the rules document as typed and not saved. It survives navigation and reloading, in this tab only.
interface Draft {
  base: number // the version it was made from
  text: string
}

const name = 'penstock-draft'

export function keepDraft(draft: Draft) {
  try {
    sessionStorage.setItem(name, JSON.stringify(draft))
  } catch {
    // the document is larger than the browser stores
  }
}

export const dropDraft = () => sessionStorage.removeItem(name)

// readDraft returns the draft, unless it says the same as the document.
export function readDraft(document: string): Draft | undefined {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(name) ?? 'null')
    if (typeof found !== 'object' || found === null || !('text' in found) || !('base' in found)) return undefined
    const { text, base } = found
    if (typeof text === 'string' && typeof base === 'number' && text !== document) return { text, base }
  } catch {
    // not a draft
  }
  return undefined
}
