// Walks every screen of the console of a running server, as an operator would.
import assert from 'node:assert/strict'
import { admin, call, calls, gateway, logIn, looked, open, token, until, viewerToken, walk } from './browser.mjs'

async function steps() {
  const { context, page } = await open({ colorScheme: 'light' })
  // Who is not logged in sees nothing, and a wrong token opens nothing.
  await page.goto(`${admin}/rules`)
  await page.getByLabel('Admin token').fill('wrong')
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByText('That is not the token.').waitFor()
  await looked(page, 'login')
  await logIn(page)

  // One click brings callers, and another sends them away.
  await page.getByRole('button', { name: 'Send demo traffic' }).waitFor()
  await looked(page, 'empty')
  await page.getByRole('button', { name: 'Send demo traffic' }).click()
  await page.getByRole('button', { name: 'Stop demo traffic' }).first().waitFor() // until calls come it is there twice
  await page.locator('.chart canvas').waitFor()
  await page
    .getByRole('link', { name: /ip=192\.0\.2\.66|ip=127\./ })
    .first()
    .waitFor() // where loopback has one address, all are there
  await page.getByRole('link', { name: 'System' }).click()
  await page.getByRole('button', { name: 'Stop demo traffic' }).waitFor()
  await looked(page, 'demo')
  await page.getByRole('button', { name: 'Stop demo traffic' }).click()
  await page.getByRole('button', { name: 'Send demo traffic' }).waitFor()
  await page.getByRole('link', { name: 'Overview' }).click()

  // Traffic appears.
  assert((await calls(30, '/')).includes(429))
  await page.getByRole('link', { name: 'ip=127.0.0.1' }).first().waitFor()
  await page.locator('.chart canvas').waitFor()
  await looked(page, 'overview')

  // A rule is written by the form, previewed on those calls, compared and saved.
  await page.getByRole('link', { name: 'Rules', exact: true }).click()
  await page.getByRole('button', { name: 'site-per-ip' }).click()
  await page.getByText('Fallback', { exact: true }).waitFor()
  await looked(page, 'rules')
  await page.getByRole('link', { name: 'Edit', exact: true }).click()
  await page.getByRole('button', { name: 'Add a rule by form' }).click()
  await page.getByLabel('Name').fill('orders-per-user')
  await page.getByLabel('Path').fill('/orders')
  await page.getByLabel('For each').fill('user')
  await page.getByLabel('Limit').fill('3/1h')
  await page.getByLabel('Mode').selectOption('enforce')
  await page.getByRole('button', { name: 'Insert' }).click()
  const editor = page.locator('.editor .cm-content')
  await editor.getByText('orders-per-user').waitFor()
  // It names an attribute that nothing provides: a warning says so, in its place.
  await page.locator('.problems').getByText(/user/).first().waitFor()
  // A limit of concurrency can be written by the form as well.
  await page.getByRole('button', { name: 'Add a rule by form' }).click()
  await page.getByLabel('Name').fill('uploads-at-once')
  await page.getByLabel('Path').fill('/uploads')
  await page.getByLabel('Algorithm').selectOption('concurrency')
  await page.getByLabel('At the same time').fill('5')
  await page.getByRole('button', { name: 'Insert' }).click()
  await editor.getByText('uploads-at-once').waitFor()
  await page.getByRole('button', { name: 'Show the changes' }).click()
  await page.locator('.diff .added').getByText('orders-per-user').waitFor()
  await page.getByRole('button', { name: 'Preview on recent requests' }).click()
  await page.getByText('Effect on recent requests').waitFor()
  await looked(page, 'editor')

  // A mistake is shown where it is, and cannot be saved.
  await editor.click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type('nonsense: true\n')
  await page
    .locator('.problems')
    .getByText(/unknown field/)
    .waitFor()
  assert(await page.getByRole('button', { name: 'Save', exact: true }).isDisabled())
  await page.keyboard.press('Shift+ArrowUp')
  await page.keyboard.press('Delete')
  await page
    .locator('.problems')
    .getByText(/unknown field/)
    .waitFor({ state: 'detached' })

  // With where the user comes from it is right.
  await page.keyboard.press('Control+Home')
  await until('the attribute is written', async () => {
    const text = await editor.textContent()
    if (text.includes('user: {header')) return true
    await editor.getByText('fingerprint:').first().click()
    await page.keyboard.press('End')
    await page.keyboard.press('Enter')
    await page.keyboard.type('user: {header: X-User}')
    return false
  })
  await page.getByLabel('Message').fill('orders are limited')
  await until('it can be saved', async () => page.getByRole('button', { name: 'Save', exact: true }).isEnabled())
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('Saved as version 2').waitFor()

  // It takes effect: the fourth call is denied, seen live, and explained.
  await page.getByRole('link', { name: 'Live tail' }).click()
  await page.getByText('Waiting for requests').waitFor()
  let tries = 0
  let user = ''
  await until('the rule denies', async () => {
    user = `u${tries++}`
    return (await calls(4, '/orders', { 'X-User': user })).join() === '200,200,200,429'
  })
  await page.locator('.calls').getByText('denied').first().waitFor()
  await page.getByLabel('Denied only').check()
  await until('the denied call is shown', async () => {
    await call('/orders', { 'X-User': user }) // again, as the stream reconnects with the filter and may miss one
    return page.locator('.calls').getByText(`user=${user}`).first().isVisible()
  })
  await looked(page, 'tail')
  // An opened call stays open while others arrive.
  const shown = await page.locator('.calls .link').count()
  await page.locator('.calls .link').first().click()
  await until('a later call is shown', async () => {
    await call('/orders', { 'X-User': user })
    return (await page.locator('.calls .link').count()) > shown
  })
  await page.getByRole('link', { name: 'Explain this request' }).click()
  await page.getByText('every condition is met').first().waitFor()
  await looked(page, 'explain')

  // The key is found, reset, and the caller may go on.
  await page.keyboard.press('Control+k')
  await page.keyboard.type(`user=${user}`)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'orders-per-user' }).waitFor()
  await page.getByText('3 of 3').waitFor()
  await looked(page, 'keys')
  await page.getByRole('button', { name: 'Reset' }).click()
  await page.getByText('0 of 3').waitFor()
  assert.equal((await call('/orders', { 'X-User': user })).status, 200)
  // What is refused says why, and where.
  await page.getByRole('button', { name: 'Override' }).click()
  await page.getByLabel('Limit').fill('often')
  await page.getByRole('button', { name: 'Save as a version of the rules' }).click()
  await page
    .getByRole('alert')
    .getByText(/line \d+:\d+.*"often"/)
    .waitFor()
  await looked(page, 'refused')
  await page.getByLabel('Limit').fill('unlimited')
  await page.getByRole('button', { name: 'Save as a version of the rules' }).click()
  await page.getByText('unlimited by an override').waitFor()

  await page.goto(`${admin}/keys?q=ip%3D198.51.100.7&rule=login-per-ip`)
  await page.getByRole('button', { name: 'Ban' }).click()
  await page.getByLabel('For how long').fill('soon')
  await page.getByRole('button', { name: 'Ban' }).last().click()
  await page
    .getByRole('alert')
    .getByText(/^duration: .*"soon"/)
    .waitFor()
  assert.equal((await page.getByRole('alert').innerText()).match(/"soon"/g).length, 1, 'an error is said once')

  // It is rolled back, and nothing of it holds any more.
  await page.getByRole('link', { name: 'Rules', exact: true }).click()
  await page.getByRole('row', { name: /^1 / }).getByRole('button', { name: 'Changes' }).click()
  await page.getByRole('heading', { name: 'Changes of version 1' }).waitFor()
  await page.getByRole('row', { name: /^1 / }).getByRole('button', { name: 'Roll back' }).click()
  await page.getByText('4 (current)').waitFor()
  await until(
    'orders are not limited',
    async () => !(await calls(5, '/orders', { 'X-User': `${user}x` })).includes(429),
  )

  // The other screens.
  await page.getByRole('link', { name: 'Playground' }).click()
  await page.getByRole('button', { name: 'Coins in a bucket' }).click()
  await page.getByText('Filled every minute').first().waitFor()
  await page.locator('.step').nth(3).click()
  await page.getByText('HTTP/1.1 429 Too Many Requests').first().waitFor()
  await page.getByRole('button', { name: 'Three answers to one trace' }).click()
  await page.getByText('Sliding log').first().waitFor()
  await until('the answers differ as they should', async () => {
    const names = (await page.locator('.lane-name').allTextContents()).join(' ')
    return /9 allowed, 0 denied.*7 allowed, 2 denied.*8 allowed, 1 denied/.test(names)
  })
  await looked(page, 'playground')
  await page.getByRole('link', { name: 'System' }).click()
  await page.getByText('This node').waitFor()
  await looked(page, 'system')
  await page.getByRole('link', { name: 'Audit' }).click()
  await page
    .getByRole('cell', { name: /orders are limited/ })
    .first()
    .waitFor()
  await looked(page, 'audit')
  await page.getByRole('link', { name: 'Integrations' }).click()
  await page.getByRole('button', { name: 'nginx' }).click()
  await page.getByText('auth_request /_penstock').waitFor()
  await looked(page, 'integrations')
  await page.getByRole('button', { name: 'Log out' }).click()
  await page.getByLabel('Admin token').waitFor()
  await context.close()
}

// Whatever callers are called, nothing of it runs.
async function hostile() {
  const payloads = []
  for (const core of [
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    'javascript:alert(1)',
    '{{constructor.constructor("alert(1)")()}}',
    '${alert(1)}',
    '</style><script>alert(1)</script>',
    '<iframe srcdoc="<script>alert(1)</script>">',
    '\u202etxt.exe',
    '\u0000\u001b[31mred'.replace(/[\u0000-\u001f]/g, '%00'),
  ]) {
    for (let i = 0; i < 50; i++) payloads.push(core + i)
  }
  for (let i = 0; i < payloads.length; i += 25) {
    await Promise.all(
      payloads.slice(i, i + 25).map((p) =>
        fetch(`${gateway}/api/v1/chat?q=${encodeURIComponent(p)}`, {
          headers: {
            'X-Fingerprint': encodeURI(p).replaceAll('%3C', '<').replaceAll('%3E', '>').replaceAll('%22', '"'),
            'User-Agent': encodeURI(p),
          },
        }).then((r) => r.text()),
      ),
    )
  }
  const { context, page } = await open({ colorScheme: 'dark' })
  await logIn(page)
  for (const path of [
    '/',
    '/rules',
    '/keys?rule=chat-per-fingerprint',
    '/tail',
    `/explain?q=${encodeURIComponent('path="<script>alert(1)</script>"')}`,
    `/keys?q=${encodeURIComponent('fingerprint="<img src=x onerror=alert(1)>"')}`,
    '/audit',
    '/system',
  ]) {
    await page.goto(admin + path)
    await page.locator('h1').waitFor()
    if (path === '/tail') {
      await page.getByText('Waiting for requests').waitFor()
      await fetch(`${gateway}/api/v1/chat`, { headers: { 'X-Fingerprint': '<img src=x onerror=alert(1)>' } })
      await page.locator('.calls').getByText('<img src=x onerror=alert(1)>').first().waitFor()
    }
    assert.equal(await page.locator('main img[src="x"], main script, main iframe').count(), 0, path)
  }
  await context.close()
}

// A viewer sees that somebody calls, and not who.
async function viewer() {
  const { context, page } = await open({ colorScheme: 'light' })
  await logIn(page, viewerToken)
  await page.getByText(/ip=#/).first().waitFor()
  assert.equal(await page.getByRole('button', { name: /demo traffic/ }).count(), 0)
  await looked(page, 'overview-viewer')
  await page.getByRole('link', { name: 'Live tail' }).click()
  await page.getByText('Waiting for requests').waitFor()
  await until('a call is seen', async () => {
    await call('/', { 'X-User': 'somebody' })
    return (await page.locator('.calls').getByText(/ip=#/).count()) > 0
  })
  await looked(page, 'tail-viewer')
  const tail = await page.locator('main').innerText()
  await page.getByRole('link', { name: 'Keys' }).click()
  await page.getByText(/ip=#/).first().waitFor()
  await looked(page, 'keys-viewer')
  const keys = await page.locator('main').innerText()
  await page.getByRole('link', { name: 'Audit' }).click()
  await page
    .getByText(/user=#/)
    .first()
    .waitFor()
  const audit = await page.locator('main').innerText()
  for (const text of [tail, keys, audit])
    assert(!/127\.0\.0\.1|192\.0\.2\.|user=u|user="u/.test(text.replaceAll(/ at \S+/g, '')), text)
  await context.close()
}

// In the dark, and on a phone.
async function themes() {
  const dark = await open({ colorScheme: 'dark' })
  await logIn(dark.page)
  for (const [name, path] of [
    ['overview', '/'],
    ['rules', '/rules'],
    ['playground', '/playground'],
    ['keys', '/keys'],
    ['editor', '/rules/edit'],
  ]) {
    await dark.page.goto(admin + path)
    await dark.page.locator('h1').waitFor()
    if (name === 'overview') await dark.page.locator('.tile').first().waitFor()
    if (name === 'playground') await dark.page.locator('.step').first().waitFor()
    if (name === 'editor') await dark.page.locator('.cm-content').waitFor()
    await looked(dark.page, `${name}-dark`)
  }
  await dark.context.close()
  const phone = await open({ viewport: { width: 390, height: 800 }, isMobile: true, hasTouch: true })
  await logIn(phone.page)
  await phone.page.getByRole('button', { name: 'Menu' }).click()
  await phone.page.getByRole('link', { name: 'Rules', exact: true }).click()
  await phone.page.getByRole('heading', { name: 'Rules' }).waitFor()
  const [wide, shown] = await phone.page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth])
  assert(wide <= shown + 1, `on a phone the page is ${wide} wide, and ${shown} are shown`)
  await looked(phone.page, 'phone')
  await phone.context.close()
}

// A tenant gets a number of its own, which is then changed and deleted; its limits say where the number comes from.
async function tenants() {
  const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }
  const before = await (await fetch(`${admin}/v1/rules`, { headers })).json()
  const rule =
    '  - {name: tenants, match: {domain: tenants}, key: [tenant], limits: [{rate: "{tenant.requests}/1h", max: 100, default: 2}]}\n'
  const saved = await fetch(`${admin}/v1/rules`, {
    method: 'PUT',
    headers,
    body: JSON.stringify({
      base: before.version.version,
      message: 'tenants',
      document: before.document.replace('\nrules:\n', `\nrules:\n${rule}`),
    }),
  })
  assert.equal(saved.status, 200, await saved.text())
  const { context, page } = await open()
  await logIn(page)
  await page.getByRole('link', { name: 'Tenants' }).click()
  await page.getByLabel('A tenant or a plan, by its attributes').fill('tenant=acme')
  // The node may still serve the rules before.
  await until('the rule is served', async () => {
    await page.getByRole('button', { name: 'Show' }).click()
    await page.getByRole('heading', { name: 'Limits' }).waitFor()
    if (await page.getByRole('link', { name: 'tenants', exact: true }).count()) return true
    await page.reload()
    return false
  })
  await page.getByText('no source has a number for this client').waitFor()
  await page.getByLabel('Number, at most 100').fill('5')
  await page.getByRole('button', { name: 'Set', exact: true }).click()
  const number = page.getByLabel('Number of requests for tenant=acme')
  await number.waitFor()
  await shows(page, 'entitlement tenant.requests')
  await looked(page, 'tenants')
  await number.fill('101')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('above the maximum of 100 in rule tenants').waitFor()
  await shows(page, 'is above the maximum of 100')
  await page.getByRole('button', { name: 'Delete' }).click()
  await page.getByText('No entitlements for these attributes').waitFor()
  await context.close()
}

// shows waits until the limits of a tenant show a text, and loads them again until they do.
async function shows(page, text) {
  await until(text, async () => {
    if (await page.locator('table').first().getByText(text).count()) return true
    await page.reload()
    await page.getByRole('heading', { name: 'Limits' }).waitFor()
    return false
  })
}

await walk(steps, viewer, hostile, themes, tenants)
