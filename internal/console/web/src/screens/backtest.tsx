import { useState } from 'preact/hooks'
import { post } from '../api'
import { readDraft } from '../draft'
import type { RuleSet } from '../types'
import { Show, useLoad } from '../ui/load'
import { ToolForm, useTool } from '../ui/report'
import { type LogChoice, LogInput, postLog, recentRequests } from '../ui/toolinput'
import { type Source, Yaml } from '../ui/yaml'

// Backtest replays requests through the current rules, alone or next to edited ones.
export function Backtest() {
  const tool = useTool()
  const [log, setLog] = useState<LogChoice>(recentRequests)
  const [edit, setEdit] = useState(false)
  const [document, setDocument] = useState<string>()
  return (
    <ToolForm
      tool={tool}
      name="backtest"
      action="Replay"
      ask={(signal) => postLog('/v1/tools/backtest', edit && document !== undefined ? { document } : {}, log, signal)}
    >
      <LogInput log={log} set={setLog} />
      <fieldset>
        <legend>Rules</legend>
        <label class="check">
          <input type="checkbox" checked={edit} onChange={(e) => setEdit(e.currentTarget.checked)} />
          Compare the current rules with edited ones
        </label>
      </fieldset>
      {edit && <EditedRules changed={setDocument} />}
    </ToolForm>
  )
}

// EditedRules begins with what is typed in the rules editor, or with the current rules. Nothing is saved.
function EditedRules({ changed }: { changed: (document: string) => void }) {
  const rules = useLoad('/v1/rules')
  return <Show of={rules}>{(set) => <Rules initial={set} changed={changed} />}</Show>
}

function Rules({ initial, changed }: { initial: RuleSet; changed: (document: string) => void }) {
  const [source] = useState<Source>(() => {
    const current = initial.document || (initial.files ?? []).map((f) => f.document).join('\n')
    const text = readDraft(current)?.text ?? current
    changed(text)
    return { text }
  })
  const check = async (document: string) => (await post('/v1/rules/validate', { body: { document } })).problems
  return <Yaml source={source} readOnly={false} check={check} changed={changed} />
}
