// On a phone, the rows of tables are shown as cards. A cell then shows the name of its column beside it, which this file
// writes into the attribute data-label, for tables of all screens.

// labelCells names the columns of a table's cells. Cells across several columns have no label.
export function labelCells(table: HTMLTableElement) {
  const heads = [...(table.tHead?.rows[0]?.cells ?? [])].map((c) => c.textContent?.trim() ?? '')
  for (const row of [...table.tBodies].flatMap((b) => [...b.rows])) {
    let column = 0
    for (const cell of row.cells) {
      const label = cell.colSpan > 1 ? '' : (heads[column] ?? '')
      if (cell.dataset.label !== label) cell.dataset.label = label
      column += cell.colSpan
    }
  }
}

// labelTables keeps the cells of all tables inside an element labelled, and returns the function that ends that.
export function labelTables(root: HTMLElement): () => void {
  const all = () => {
    for (const table of root.querySelectorAll('table')) labelCells(table)
  }
  const observer = new MutationObserver(all)
  observer.observe(root, { childList: true, subtree: true })
  all()
  return () => observer.disconnect()
}
