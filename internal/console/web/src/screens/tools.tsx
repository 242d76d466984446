import { useLocation } from 'preact-iso'
import { mayChange } from '../api'
import { Empty } from '../ui/load'
import { Backtest } from './backtest'
import { Plan } from './plan'
import { Simulate } from './simulate'
import { Suggest } from './suggest'

const tools = {
  backtest: { name: 'Backtest', about: 'What would rules have denied?', show: Backtest, operator: true },
  suggest: { name: 'Suggest a limit', about: 'Which limit fits my traffic?', show: Suggest, operator: true },
  simulate: { name: 'Simulate', about: 'How accurate is a limit?', show: Simulate, operator: true },
  plan: { name: 'Plan', about: 'How large must it be?', show: Plan, operator: false },
}

const isTool = (name: string | undefined): name is keyof typeof tools => name !== undefined && name in tools

// Tools runs the commands of the same names on this node.
export function Tools() {
  const { query } = useLocation()
  const chosen = isTool(query.tool) ? query.tool : 'backtest'
  const { about, operator, show: Tool } = tools[chosen]
  return (
    <>
      <h1>Tools</h1>
      <nav class="tabs" aria-label="Tools">
        {Object.entries(tools).map(([path, t]) => (
          <a key={path} class="button" href={`/tools?tool=${path}`} aria-current={path === chosen ? 'page' : undefined}>
            {t.name}
          </a>
        ))}
      </nav>
      <p class="quiet">
        {about} The same as <code>penstock {chosen}</code> in a terminal, for at most a minute.
      </p>
      {operator && !mayChange() ? (
        <Empty title="This tool is for operators">
          <p>It names clients or takes much of the memory of this node, so only operators and admins can use it.</p>
        </Empty>
      ) : (
        <Tool />
      )}
    </>
  )
}
