import type { ComponentChildren } from 'preact'

type Column = string | { name: string; class: string }

// Table is a table with its column names. It scrolls by itself, also by keyboard, if it is too wide.
export function Table(props: { name: string; columns: Column[]; class?: string; children: ComponentChildren }) {
  return (
    <div class="scroll" role="region" aria-label={props.name} tabIndex={0}>
      <table class={props.class}>
        <thead>
          <tr>
            {props.columns.map((c, i) => (
              <Heading key={i} of={c} />
            ))}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
    </div>
  )
}

function Heading({ of }: { of: Column }) {
  if (typeof of === 'string') return <th>{of}</th>
  if (of.class === 'hidden') {
    return (
      <th>
        <span class="hidden">{of.name}</span>
      </th>
    )
  }
  return <th class={of.class}>{of.name}</th>
}

// num is the heading of a column of numbers.
export const num = (name: string) => ({ name, class: 'num' })

// actions is the heading of a column of buttons, which needs none to the eye.
export const actions = { name: 'Actions', class: 'hidden' }
