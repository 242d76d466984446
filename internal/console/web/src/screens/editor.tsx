import { useEffect, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { Failure, get, mayChange, post, put } from '../api'
import { addRule, type Rule } from '../document'
import { dropDraft, keepDraft, readDraft } from '../draft'
import type { Preview, RuleDiff, RuleProblem, RuleSet } from '../types'
import { Badge } from '../ui/badge'
import { Show, Trouble, useLoad } from '../ui/load'
import { Problems } from '../ui/problems'
import { offerUndo } from '../ui/undo'
import { type Source, Yaml } from '../ui/yaml'
import { Changes, Diff } from './changes'
import { NewRule } from './newrule'
import { PreviewResult } from './preview'
import { SaveBar } from './savebar'
import { warningsOf } from './savewarnings'

// Editor loads the rules document. It loads it once: versions that others save in the meantime must not replace what
// is typed.
export function Editor() {
  const rules = useLoad('/v1/rules')
  return <Show of={rules}>{(set) => <DocumentEditor initial={set} />}</Show>
}

interface Outcome {
  error?: Error
  saved?: string
  diff?: RuleDiff
  preview?: Preview
  warnings?: string[] // why it was not saved; saving again saves it
}

// documentOf returns the text to edit. Several files are shown together, and cannot be edited.
const documentOf = (set: RuleSet) =>
  set.document || (set.files ?? []).map((f) => `# ${f.name}\n${f.document}`).join('\n')

// useTyped keeps the document as typed, also while the user is at other screens.
function useTyped(initial: RuleSet) {
  const [set, setSet] = useState(initial)
  const [draft, setDraft] = useState(() => (initial.editable ? readDraft(initial.document ?? '') : undefined))
  const [source, setSource] = useState<Source>({ text: draft?.text ?? documentOf(initial) })
  const [text, setText] = useState(source.text)
  const writable = set.editable && mayChange()
  const changed = text !== set.document
  const base = draft?.base ?? set.version?.version ?? 0
  useLeaveWarning(changed && writable)
  const type = (typed: string) => {
    setText(typed)
    if (writable && typed !== set.document) keepDraft({ base, text: typed })
    else dropDraft()
  }
  const replace = (by: string) => {
    type(by)
    setSource({ text: by })
  }
  // load replaces what is typed with the current rules.
  const load = (now: RuleSet) => {
    dropDraft()
    setDraft(undefined)
    setSet(now)
    setSource({ text: documentOf(now) })
    setText(documentOf(now))
  }
  return { set, draft, source, text, writable, changed, base, type, replace, load }
}

// DocumentEditor edits the rules document, checks it while it is typed, previews it on recent requests, and saves it.
function DocumentEditor({ initial }: { initial: RuleSet }) {
  const typed = useTyped(initial)
  const { set, text, writable, changed, base } = typed
  const [problems, setProblems] = useState<RuleProblem[]>([])
  const { outcome, setOutcome, run } = useOutcome()
  const [line, goTo] = useLine()

  const check = async (document: string) => {
    const found = (await post('/v1/rules/validate', { body: { document } })).problems
    setProblems(found)
    return found
  }
  const insert = (rule: Rule) => {
    const added = addRule(text, rule)
    setOutcome(added ? {} : { error: new Error('The document has no list of rules. Write the rule by hand.') })
    if (added !== undefined) typed.replace(added)
  }
  const body = { document: text }
  const compare = async () => ({ diff: await post('/v1/rules/diff', { body }) })
  const tryOut = async () => ({ preview: await post('/v1/rules/preview', { body }) })
  const reload = async () => typed.load(await get('/v1/rules'))
  const save = async (message: string) => {
    let isSaved = false
    await run(async () => {
      const warnings = outcome.warnings ? [] : warningsOf(await post('/v1/rules/preview', { body }))
      if (warnings.length > 0) return { warnings }
      const { version } = await put('/v1/rules', { body: { document: text, base, message } })
      await reload()
      const undo = () => rollBack(base, version.version).then(reload)
      if (base > 0) offerUndo(`Saved version ${version.version} of the rules.`, undo)
      const saved = `Saved as version ${version.version}. It takes effect on every node within seconds.`
      isSaved = true
      return { saved, diff: undefined, preview: undefined, warnings: undefined }
    })
    return isSaved
  }

  return (
    <>
      <Head set={set} changed={changed && writable} add={writable ? insert : undefined} />
      {typed.draft && <Restored version={typed.draft.base} discard={() => typed.load(set)} />}
      {!writable && <p class="quiet">{set.reason ?? 'You have read-only access.'}</p>}
      <Yaml
        source={typed.source}
        readOnly={!writable}
        line={line}
        check={check}
        changed={(now) => {
          typed.type(now)
          setOutcome({})
        }}
      />
      <Problems list={problems} go={(p) => goTo(p.line)} />
      <SaveBar
        broken={problems.some((p) => p.severity === 'error')}
        changed={changed}
        anyway={outcome.warnings !== undefined}
        compare={() => void run(compare)}
        preview={mayChange() ? () => void run(tryOut) : undefined}
        save={writable ? save : undefined}
      />
      <Result {...outcome} />
    </>
  )
}

const Restored = ({ version, discard }: { version: number; discard: () => void }) => (
  <div class="good row" role="status">
    <span class="grow">Your unsaved changes to version {version} are here again.</span>
    <button type="button" class="small" onClick={discard}>
      Discard them
    </button>
  </div>
)

// rollBack saves an older version again.
const rollBack = (to: number, base: number) =>
  post('/v1/rules/rollback', { body: { to, base, message: `Undo version ${base}` } })

// useLeaveWarning lets the browser ask before the tab is closed with unsaved changes.
function useLeaveWarning(unsaved: boolean) {
  useEffect(() => {
    if (!unsaved) return
    const warn = (e: BeforeUnloadEvent) => e.preventDefault()
    window.addEventListener('beforeunload', warn)
    return () => window.removeEventListener('beforeunload', warn)
  }, [unsaved])
}

// useOutcome keeps the outcome of the actions on the current text; it is cleared when the text changes.
function useOutcome() {
  const [outcome, setOutcome] = useState<Outcome>({})
  // run shows what an action returns, or why it failed, and returns whether it succeeded.
  const run = async (action: () => Promise<Outcome>): Promise<boolean> => {
    try {
      const done = await action()
      setOutcome((before) => ({ ...before, error: undefined, saved: undefined, ...done }))
      return true
    } catch (err) {
      setOutcome((before) => ({ ...before, error: err as Error, saved: undefined }))
      return false
    }
  }
  return { outcome, setOutcome, run }
}

// useLine returns the line to scroll to: at first the one in the address, then the one that is chosen, even if it is
// the same.
function useLine(): [line: number | undefined, goTo: (line?: number) => void] {
  const { query } = useLocation()
  const [line, setLine] = useState<number>()
  useEffect(() => {
    if (query.line) setLine(Number(query.line))
  }, [])
  const goTo = (to?: number) => {
    setLine(undefined)
    window.setTimeout(() => setLine(to))
  }
  return [line, goTo]
}

function Head({ set, changed, add }: { set: RuleSet; changed: boolean; add?: (rule: Rule) => void }) {
  const [form, setForm] = useState(false)
  return (
    <>
      <div class="head">
        <h1>Rules document</h1>
        {set.version && <Badge kind="plain">version {set.version.version}</Badge>}
        {changed && <Badge kind="shadow">changed</Badge>}
        <span class="grow" />
        {add && (
          <button type="button" onClick={() => setForm(!form)} aria-expanded={form}>
            Add a rule by form
          </button>
        )}
      </div>
      {form && add && (
        <NewRule
          add={(rule) => {
            add(rule)
            setForm(false)
          }}
          cancel={() => setForm(false)}
        />
      )}
    </>
  )
}

function Result({ error, saved, diff, preview, warnings }: Outcome) {
  return (
    <>
      {warnings?.map((w) => (
        <p key={w} class="trouble" role="alert">
          {w}
        </p>
      ))}
      {error && <Trouble error={error} />}
      {error instanceof Failure && error.diff && (
        <>
          <h3>What others changed meanwhile</h3>
          <Diff text={error.diff} />
        </>
      )}
      {saved && (
        <p class="good" role="status">
          {saved}
        </p>
      )}
      {diff && <Changes diff={diff} />}
      {preview && <PreviewResult preview={preview} />}
    </>
  )
}
