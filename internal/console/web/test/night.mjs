// Walks a night: a rule denies much, an operator finds who it is, explains it, blocks the client on all nodes, checks
// that, lifts the block, writes down what was done, and changes the rules without fear. There are two nodes; PENSTOCK_OTHER is the gateway of the
// one whose console is not used, PENSTOCK_OTHER_ADMIN its admin API.
import assert from 'node:assert/strict'
import { admin, call, logIn, looked, open, token, until, walk } from './browser.mjs'

const bot = '203.0.113.66'
const other = process.env.PENSTOCK_OTHER

// told is what the other node tells the bot.
async function told() {
  const response = await fetch(`${other}/`, { headers: { 'X-Forwarded-For': bot } })
  const text = await response.text()
  return response.status === 429
    ? { status: 429, wait: response.headers.get('Retry-After'), ...JSON.parse(text) }
    : { status: response.status }
}

async function night() {
  const { context, page } = await open({ colorScheme: 'dark' })
  for (let i = 0; i < 20; i++) await call('/', { 'X-Forwarded-For': bot, 'X-User': 'mallory' })
  await logIn(page)

  // The overview says which rule denies much, and who is denied is a click away. The rule is another one.
  await page.getByRole('listitem').filter({ hasText: 'per-ip denies' }).getByRole('link').click()
  await page
    .getByRole('link', { name: `ip=${bot}` })
    .first()
    .waitFor()
  await page.getByRole('link', { name: 'Rules', exact: true }).click()
  await page.getByText('per-ip').first().waitFor()

  // A bare address is enough to find the client, and so is a user.
  await page.keyboard.press('Control+k')
  await page.keyboard.type('mallory')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'user=mallory' }).waitFor()
  await page.keyboard.press('Control+k')
  await page.keyboard.type(bot)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: `ip=${bot}` }).waitFor()
  await page.getByText('5 of 5').waitFor()
  await page.locator('main').getByRole('link', { name: 'Explain', exact: true }).click()
  await page.getByText('every condition is met').first().waitFor()

  // It is blocked on all nodes. The form asks, since this client sent most of what was allowed.
  await page.goBack()
  await page.getByRole('button', { name: 'Block', exact: true }).click()
  await page.getByLabel('Reason, for other operators').fill('scraper at night')
  await looked(page, 'block')
  await page.getByRole('button', { name: 'Block on all nodes' }).click()
  await page.getByText(/blocked until/).waitFor()
  await page.getByText('scraper at night').first().waitFor()
  await until('the other node blocks', async () => (await told()).error === 'blocked')
  const answer = await told()
  assert(
    answer.detail.startsWith('Blocked by an operator; retry in ') && Number(answer.wait) > 60,
    JSON.stringify(answer),
  )
  await looked(page, 'blocked')
  await page.locator('main').getByRole('link', { name: 'Explain', exact: true }).click()
  await page.getByText('An operator has blocked this client until').waitFor()

  // Who is on the next shift sees it, and lifts it; a slip is undone.
  await page.getByRole('link', { name: 'Keys' }).click()
  const row = page.getByRole('row', { name: /scraper at night/ })
  await row.waitFor()
  await looked(page, 'blocks')
  await row.getByRole('button', { name: 'Lift block' }).click()
  await until('the other node lifts', async () => (await told()).error !== 'blocked')
  await page.getByRole('button', { name: 'Undo' }).click()
  await row.waitFor()
  await until('the other node blocks again', async () => (await told()).error === 'blocked')
  await row.getByRole('button', { name: 'Lift block' }).click()
  await row.waitFor({ state: 'detached' })
  await until('the other node lifts', async () => (await told()).error !== 'blocked')
  await page.getByRole('button', { name: 'Dismiss' }).click()

  // A fresh start takes a confirmation, which the browser gives.
  await page.goto(`${admin}/keys?q=${bot}`)
  await page.getByRole('button', { name: 'Reset' }).click()
  await page.getByText('0 of 5').waitFor()

  // What was done is written on the charts, for everybody: of all rules, and of the rule.
  await page.getByRole('link', { name: 'Overview' }).click()
  await annotate(page, 'blocked scraper, ticket 123')
  await page.getByText('Annotated').waitFor()
  await page.getByText('blocked scraper, ticket 123').waitFor()
  await page.getByRole('link', { name: 'Rules', exact: true }).click()
  await page.getByRole('button', { name: 'per-ip' }).click()
  await annotate(page, 'ticket 123: limit is right')
  await page.getByText('ticket 123: limit is right').waitFor()
  await page.getByText('blocked scraper, ticket 123').waitFor()
  await looked(page, 'annotated')
  await until('the other node shows it', async () => {
    const marks = await marksOfOther()
    return marks.some((m) => m.text === 'blocked scraper, ticket 123' && m.author.startsWith('admin.token'))
  })

  // A slip is deleted, and so are second thoughts about that.
  const slip = page.getByRole('listitem').filter({ hasText: 'ticket 123: limit is right' })
  await slip.getByRole('button', { name: 'Delete' }).click()
  await slip.waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Undo' }).click()
  await slip.waitFor()
  await context.close()
}

// annotate writes on the chart of the screen that is shown.
async function annotate(page, text) {
  await page.getByRole('button', { name: 'Annotate' }).click()
  await page.getByLabel('What happened').fill(text)
  await looked(page, 'annotate')
  await page.getByRole('button', { name: 'Save annotation' }).click()
  const written = page.locator('.marks').getByText(text)
  await written.waitFor({ state: 'attached' })
  await until('the events are shown', async () => {
    if (!(await written.isVisible())) await page.locator('.marks summary').click()
    return written.isVisible()
  })
}

async function marksOfOther() {
  const response = await fetch(`${process.env.PENSTOCK_OTHER_ADMIN}/v1/history?last=1h`, {
    headers: { Authorization: `Bearer ${token}` },
  })
  return (await response.json()).marks
}

async function changes() {
  const { context, page } = await open({ colorScheme: 'light' })
  await logIn(page)
  await page.getByRole('link', { name: 'Rules', exact: true }).click()
  await page.getByRole('link', { name: 'Edit', exact: true }).click()
  const editor = page.locator('.editor .cm-content')
  await editor.getByText('per-ip').waitFor()

  // What is typed is there after a visit elsewhere, and can be discarded.
  await editor.click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type('# not saved yet')
  await page.getByRole('link', { name: 'Overview' }).click()
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await page.getByRole('link', { name: 'Rules', exact: true }).click()
  await page.getByRole('link', { name: 'Edit', exact: true }).click()
  await editor.getByText('# not saved yet').waitFor()
  await page.getByText('Your unsaved changes to version 1 are here again.').waitFor()
  await looked(page, 'draft')
  await page.getByRole('button', { name: 'Discard them' }).click()
  await editor.getByText('# not saved yet').waitFor({ state: 'detached' })

  // A limit of 0 is not saved without a second thought, and saving is undone.
  await page.getByRole('button', { name: 'Add a rule by form' }).click()
  await page.getByLabel('Name').fill('closed')
  await page.getByLabel('Path').fill('/closed')
  await page.getByLabel('For each').fill('ip')
  await page.getByLabel('Limit').fill('0/1m')
  await page.getByLabel('Mode').selectOption('enforce')
  await page.getByRole('button', { name: 'Insert' }).click()
  await editor.getByText('closed').first().waitFor()
  const save = page.getByRole('button', { name: 'Save', exact: true })
  await until('it can be saved', async () => save.isEnabled())
  await save.click()
  await page.getByText('closed has a limit of 0: it denies every request under it.').waitFor()
  await looked(page, 'warned')
  await page.getByRole('button', { name: 'Save anyway' }).click()
  await page.getByText('Saved as version 2').waitFor()
  await page.getByRole('button', { name: 'Undo' }).click()
  await editor.getByText('closed').first().waitFor({ state: 'detached' })

  // The audit has it all.
  await page.getByRole('link', { name: 'Audit' }).click()
  for (const action of ['rollback', 'delete-annotation', 'annotate', 'lift-block', 'block', 'reset'])
    await page.getByRole('cell', { name: action, exact: true }).first().waitFor()
  await context.close()
}

await walk(night, changes)
