// Walks users and tokens as an admin does, and then every screen in both themes and on a phone.
import assert from 'node:assert/strict'
import { admin, logIn, looked, open, token, until, walk } from './browser.mjs'
import { alike } from './pictures.mjs'

const password = 'correct horse battery'

// byPassword logs in as a user.
async function byPassword(page, user, secret) {
  await page.goto(admin)
  await page.getByRole('button', { name: 'Password', exact: true }).click()
  await page.getByLabel('User name').fill(user)
  await page.getByLabel('Password', { exact: true }).fill(secret)
  await page.getByRole('button', { name: 'Log in' }).click()
}

const logOut = async (page) => {
  await page.getByRole('button', { name: 'Log out' }).click()
  await page.getByRole('button', { name: 'Log in' }).waitFor()
}

const status = async (bearer, path) =>
  (await fetch(admin + path, { headers: { Authorization: `Bearer ${bearer}` } })).status

async function people() {
  const { context, page } = await open({ colorScheme: 'light' })
  await logIn(page)

  // The token of the configuration makes the first user, whose password is shown once.
  await page.getByRole('link', { name: 'Users' }).click()
  await page.getByRole('heading', { name: 'There are no users yet' }).waitFor()
  await looked(page, 'users-empty')
  await page.getByLabel('User name').fill('ann')
  await page.getByRole('button', { name: 'Add', exact: true }).click()
  await page.getByText('Password of ann').waitFor()
  const made = await page.locator('.good pre').innerText()
  await looked(page, 'users-password')
  await logOut(page)

  await byPassword(page, 'ann', 'wrong password')
  await page.getByText('Wrong user name or password.').waitFor()
  await byPassword(page, 'ann', made)
  await page.getByRole('link', { name: 'ann · admin' }).click()
  await page.getByLabel('Current password').fill(made)
  await page.getByLabel('New password').fill(password)
  await page.getByRole('button', { name: 'Change' }).click()
  await page.getByText('Your password is changed.').waitFor()
  await looked(page, 'account')

  // Another user, whose role changes while a session is open.
  await page.getByRole('link', { name: 'Users' }).click()
  await page.getByText('(you)').waitFor()
  await page.getByLabel('User name').fill('bob')
  await page.getByLabel('Password', { exact: true }).fill('short')
  await page.getByRole('button', { name: 'Add', exact: true }).click()
  await page.getByRole('alert').getByText('at least 12 characters').waitFor()
  await page.getByLabel('Password', { exact: true }).fill(password)
  await page.locator('section.card').getByLabel(/^Role/).selectOption('operator')
  await page.getByRole('button', { name: 'Add', exact: true }).click()
  await page.getByRole('row', { name: /^bob/ }).waitFor()
  const bob = await open()
  await byPassword(bob.page, 'bob', password)
  await bob.page.getByRole('link', { name: 'bob · operator' }).waitFor()
  assert.equal(await bob.page.getByRole('link', { name: 'Users' }).count(), 0)
  await page.getByLabel('Role of bob').selectOption('viewer')
  await until('bob is a viewer in the open session', async () => {
    await bob.page.reload()
    return (await bob.page.getByRole('link', { name: 'bob · viewer' }).count()) > 0
  })
  await page.getByLabel('Role of ann').selectOption('viewer')
  await page.getByRole('alert').getByText('last admin').waitFor()
  await looked(page, 'users')

  // A token for metrics only, until it is revoked.
  await page.getByRole('link', { name: 'API tokens' }).click()
  await page.getByRole('heading', { name: 'There are no tokens yet' }).waitFor()
  await page.getByLabel('Token name').fill('prometheus')
  await page.getByLabel('metrics').check()
  await page.getByLabel('For a service').check()
  await page.getByRole('button', { name: 'Create' }).click()
  await page.getByText('Token prometheus').waitFor()
  const secret = await page.locator('.good pre').innerText()
  await looked(page, 'tokens')
  assert.deepEqual([await status(secret, '/metrics'), await status(secret, '/v1/status')], [200, 403])
  await page.getByRole('button', { name: 'Revoke' }).click()
  await page.getByRole('heading', { name: 'There are no tokens yet' }).waitFor()
  assert.equal(await status(secret, '/metrics'), 401)

  // The audit names ann. Who is removed is out.
  await page.getByRole('link', { name: 'Users' }).click()
  await page.getByRole('row', { name: /^bob/ }).getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('row', { name: /^bob/ }).waitFor({ state: 'detached' })
  await until('bob is logged out', async () => {
    await bob.page.reload()
    return (await bob.page.getByRole('button', { name: 'Log in' }).count()) > 0
  })
  await bob.context.close()
  await page.getByRole('link', { name: 'Audit' }).click()
  await page.getByRole('row', { name: /ann \(admin\).*user-remove.*bob, who was viewer/ }).waitFor()
  await logOut(page)
  await context.close()
}

const screens = [
  '/',
  '/rules',
  '/keys',
  '/tail',
  '/explain',
  '/playground',
  '/tools',
  '/system',
  '/audit',
  '/integrations',
]
// outline is what a screen offers: its headings, columns, fields and buttons.
const outline = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll('main h1, main h2, main th, main label, main button, main legend')]
      .map((e) => `${e.tagName} ${e.firstChild?.textContent?.trim() ?? ''}`)
      .filter((text) => !/^BUTTON (\d|$)/.test(text)),
  )

// settled waits until a screen has loaded what it shows.
async function settled(page, path) {
  await page.goto(admin + path)
  await page.locator('h1').waitFor()
  await until('everything is loaded', async () => (await page.getByText('Loading…').count()) === 0)
}

// Every screen offers the same in both themes and on a phone, where nothing is cut off and rows of tables are cards. The
// dark theme is in the long version of the tests only: the other walks look at its contrasts.
async function pictures() {
  const themes = {
    light: await open({ colorScheme: 'light' }),
    ...(process.env.PENSTOCK_TEST_LONG && { dark: await open({ colorScheme: 'dark' }) }),
    phone: await open({ colorScheme: 'light', viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true }),
  }
  for (const [name, { page }] of Object.entries(themes)) {
    await page.goto(admin)
    await page.getByRole('button', { name: 'Log in' }).waitFor()
    await alike(page, `login-${name}`)
    await logIn(page, token)
  }
  for (const path of [...screens, '/tokens', '/users', '/account']) {
    const pages = Object.entries(themes).map(([name, { page }]) => ({ name, page }))
    await Promise.all(pages.map(({ page }) => settled(page, path)))
    await until(`${path} offers the same in all themes`, async () => {
      const found = await Promise.all(pages.map(({ page }) => outline(page)))
      return found[0].length > 0 && found.every((one) => one.join() === found[0].join())
    })
    const shown = path.slice(1) || 'overview'
    for (const { name, page } of pages) await alike(page, `${shown}-${name}`)
    await fits(themes.phone.page, path)
    await looked(themes.phone.page, `${shown}-phone`) // the other walks look at the rest
  }
  for (const { context } of Object.values(themes)) await context.close()
}

// fits checks that a phone shows the whole width of a screen, and tables as cards.
async function fits(page, path) {
  const wide = await page.evaluate(() => ({
    page: document.documentElement.scrollWidth,
    shown: window.innerWidth,
    rows: [...document.querySelectorAll('main table:has(thead) tbody tr')].map((r) => getComputedStyle(r).display),
    unnamed: [...document.querySelectorAll('main table:has(thead) tbody td:not([data-label])')].length,
  }))
  assert(wide.page <= wide.shown + 1, `${path}: on a phone the page is ${wide.page} wide, and ${wide.shown} are shown`)
  assert(
    wide.rows.every((d) => d === 'block'),
    `${path}: rows are ${wide.rows}`,
  )
  assert.equal(wide.unnamed, 0, `${path}: cells without the name of their column`)
}

await walk(people, pictures)
