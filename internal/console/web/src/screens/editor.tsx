import { useEffect, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { Failure, get, mayChange, post, put } from '../api'
import { addRule, type Rule } from '../document'
import { attributes, count, percent, time } from '../format'
import type { Preview, RuleDiff, RuleProblem, RuleSet } from '../types'
import { Badge } from '../ui/badge'
import { Trouble } from '../ui/load'
import { Problems } from '../ui/problems'
import { type Source, Yaml } from '../ui/yaml'
import { NewRule } from './newrule'
import { Diff } from './rules'

// Editor is the document of the rules: written, checked, tried on the calls of late, compared, and saved.
export function Editor() {
  const { query: asked } = useLocation()
  const [set, setSet] = useState<RuleSet>()
  const [source, setSource] = useState<Source>({ text: '' })
  const [text, setText] = useState('') // as it was typed
  const [line, setLine] = useState<number>()
  const [problems, setProblems] = useState<RuleProblem[]>([])
  const [wrong, setWrong] = useState<Error>()
  const [saved, setSaved] = useState('')
  const [message, setMessage] = useState('')
  const [diff, setDiff] = useState<RuleDiff>()
  const [preview, setPreview] = useState<Preview>()
  const [form, setForm] = useState(false)
  const replace = (by: string) => {
    setText(by)
    setSource({ text: by })
  }
  const insert = (rule: Rule) => {
    const added = addRule(text, rule)
    if (added !== undefined) replace(added)
    setWrong(added === undefined ? new Error('The document has no list of rules. Write the rule by hand.') : undefined)
    setForm(false)
  }
  const load = async () => {
    try {
      const found = await get('/v1/rules')
      setSet(found)
      replace(found.document || (found.files ?? []).map((f) => `# ${f.name}\n${f.document}`).join('\n'))
      if (asked.line) setLine(Number(asked.line))
    } catch (err) {
      setWrong(err as Error)
    }
  }
  useEffect(() => {
    void load()
  }, [])
  if (!set) return wrong ? <Trouble error={wrong} again={() => void load()} /> : <p class="quiet">Loading…</p>

  const writable = set.editable && mayChange()
  const changed = text !== set.document
  const broken = problems.some((p) => p.severity === 'error')
  const check = async (document: string) => {
    const answer = await post('/v1/rules/validate', { body: { document } })
    setProblems(answer.problems)
    return answer.problems
  }
  const attempt = async (what: () => Promise<void>) => {
    setSaved('')
    try {
      await what()
      setWrong(undefined)
    } catch (err) {
      setWrong(err as Error)
    }
  }
  const compare = () => attempt(async () => setDiff(await post('/v1/rules/diff', { body: { document: text } })))
  const tryOut = () => attempt(async () => setPreview(await post('/v1/rules/preview', { body: { document: text } })))
  const save = () =>
    attempt(async () => {
      const answer = await put('/v1/rules', {
        body: { document: text, base: set.version?.version ?? 0, message: message || 'Edited in the console' },
      })
      setSaved(`Saved as version ${answer.version.version}. It takes effect on every node within seconds.`)
      setMessage('')
      setDiff(undefined)
      setPreview(undefined)
      setSet(await get('/v1/rules'))
    })

  return (
    <>
      <div class="head">
        <h1>Rules document</h1>
        {set.version && <Badge kind="plain">version {set.version.version}</Badge>}
        {changed && writable && <Badge kind="shadow">changed</Badge>}
        <span class="grow" />
        {writable && (
          <button type="button" onClick={() => setForm(!form)} aria-expanded={form}>
            Add a rule by form
          </button>
        )}
      </div>
      {!writable && <p class="quiet">{set.reason ?? 'You may look, and not change.'}</p>}
      {form && <NewRule add={insert} cancel={() => setForm(false)} />}
      <Yaml
        source={source}
        readOnly={!writable}
        line={line}
        check={check}
        changed={(t) => {
          setText(t)
          setSaved('')
          setDiff(undefined)
          setPreview(undefined)
        }}
      />
      <Problems
        list={problems}
        go={(p) => {
          setLine(undefined)
          window.setTimeout(() => setLine(p.line))
        }}
      />
      {wrong && <Trouble error={wrong} />}
      {wrong instanceof Failure && wrong.diff && (
        <>
          <h3>What others changed meanwhile</h3>
          <Diff text={wrong.diff} />
        </>
      )}
      {saved && (
        <p class="good" role="status">
          {saved}
        </p>
      )}
      <div class="row">
        {mayChange() && (
          <button type="button" onClick={() => void tryOut()} disabled={broken}>
            Preview on recent calls
          </button>
        )}
        <button type="button" onClick={() => void compare()} disabled={broken || !changed}>
          Show the changes
        </button>
        {writable && (
          <>
            <label class="grow">
              Why{' '}
              <input
                class="wide"
                maxLength={500}
                placeholder="what this change is for"
                value={message}
                onInput={(e) => setMessage(e.currentTarget.value)}
              />
            </label>
            <button type="button" class="primary" disabled={broken || !changed} onClick={() => void save()}>
              Save
            </button>
          </>
        )}
      </div>
      {diff && <Changes diff={diff} />}
      {preview && <PreviewResult preview={preview} />}
    </>
  )
}

function Changes({ diff }: { diff: RuleDiff }) {
  return (
    <section>
      <h2>Changes</h2>
      <ul class="list">
        {diff.changes.map((c, i) => (
          <li key={i}>
            <Badge kind={c.op === 'add' ? 'allowed' : c.op === 'remove' ? 'denied' : 'shadow'}>{c.op}</Badge>{' '}
            <span>
              {c.kind} <strong>{c.name}</strong> {c.value}
              {c.fields?.map((f) => ` ${f.field}: ${f.from ?? 'none'} → ${f.to ?? 'none'}`).join(';')}
            </span>
          </li>
        ))}
        {diff.changes.length === 0 && <li>The same in meaning.</li>}
      </ul>
      <Diff text={diff.text ?? ''} />
    </section>
  )
}

function PreviewResult({ preview: p }: { preview: Preview }) {
  if (p.calls === 0) return <p class="quiet">No calls were kept yet: there is nothing to try the rules on.</p>
  const all = (c: Preview['current']) => c.allowed + c.denied
  return (
    <section>
      <h2>Had these rules been in force</h2>
      <p class="quiet">
        {count(p.calls)} calls kept from {time(p.from)} to {time(p.to)}, which stand for about {count(p.stands_for)},
        decided again.
      </p>
      <p>
        Now <strong>{percent(p.current.denied, all(p.current))}</strong> denied, then{' '}
        <strong>{percent(p.proposed.denied, all(p.proposed))}</strong>: {count(p.newly_denied)} more calls denied,{' '}
        {count(p.newly_allowed)} more allowed. In shadow mode {count(p.proposed.shadow)} would be denied.
      </p>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th>Rule</th>
              <th class="num">Denied now</th>
              <th class="num">Then</th>
            </tr>
          </thead>
          <tbody>
            {p.rules.map((r) => (
              <tr key={r.rule}>
                <td>{r.rule}</td>
                <td class="num">{r.current ? r.current.denied + r.current.shadow : 'no such rule'}</td>
                <td class="num">{r.proposed ? r.proposed.denied + r.proposed.shadow : 'no such rule'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {p.keys.length > 0 && (
        <>
          <h3>For whom it changes</h3>
          <div class="scroll">
            <table>
              <thead>
                <tr>
                  <th>Who</th>
                  <th>Rule</th>
                  <th class="num">Denied now</th>
                  <th class="num">Then</th>
                </tr>
              </thead>
              <tbody>
                {p.keys.map((k, i) => (
                  <tr key={i}>
                    <td>
                      <code>{attributes(k.key) || 'everybody'}</code>
                    </td>
                    <td>{k.rule}</td>
                    <td class="num">{k.current_denied}</td>
                    <td class="num">{k.proposed_denied}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </section>
  )
}
