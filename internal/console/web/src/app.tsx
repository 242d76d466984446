import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { LocationProvider, lazy, Route, Router, useLocation } from 'preact-iso'
import { type Failure, isAdmin, logOut, session, whoAmI } from './api'
import { toggleUTC, utc, zone } from './format'
import { Account } from './screens/account'
import { Audit } from './screens/audit'
import { Explain } from './screens/explain'
import { Integrations } from './screens/integrations'
import { Keys } from './screens/keys'
import { Login } from './screens/login'
import { Overview } from './screens/overview'
import { Rules } from './screens/rules'
import { System } from './screens/system'
import { Tail } from './screens/tail'
import { Tenants } from './screens/tenants'
import { Tokens } from './screens/tokens'
import { Users } from './screens/users'
import { Search } from './search'
import { dark, toggleTheme } from './theme'
import { labelTables } from './ui/cards'
import { Trouble } from './ui/load'
import { UndoBar } from './ui/undo'

// The editor is most of the bundle, and the playground and the tools are seldom opened.
const RuleEditor = lazy(() => import('./screens/editor').then((m) => m.Editor))
const Playground = lazy(() => import('./screens/playground').then((m) => m.Playground))
const Tools = lazy(() => import('./screens/tools').then((m) => m.Tools))

// Screens in the menu, some of them for admins only.
export const screens: { path: string; name: string; admin?: boolean }[] = [
  { path: '/', name: 'Overview' },
  { path: '/rules', name: 'Rules' },
  { path: '/keys', name: 'Keys' },
  { path: '/tenants', name: 'Tenants' },
  { path: '/tail', name: 'Live tail' },
  { path: '/explain', name: 'Explain' },
  { path: '/playground', name: 'Playground' },
  { path: '/tools', name: 'Tools' },
  { path: '/system', name: 'System' },
  { path: '/audit', name: 'Audit' },
  { path: '/integrations', name: 'Integrations' },
  { path: '/tokens', name: 'API tokens' },
  { path: '/users', name: 'Users', admin: true },
]

export const visibleScreens = () => screens.filter((s) => !s.admin || isAdmin())

export function App() {
  const [trouble, setTrouble] = useState<Error>()
  useEffect(() => {
    whoAmI().catch((err: Failure) => setTrouble(err))
  }, [])
  if (session.value === undefined) {
    return (
      <main class="alone">
        {trouble ? <Trouble error={trouble} again={() => location.reload()} /> : <p class="quiet">…</p>}
      </main>
    )
  }
  if (session.value === null) return <Login />
  return (
    <LocationProvider>
      <Frame>
        <Router>
          <Route path="/" component={Overview} />
          <Route path="/rules" component={Rules} />
          <Route path="/rules/edit" component={RuleEditor} />
          <Route path="/keys" component={Keys} />
          <Route path="/tenants" component={Tenants} />
          <Route path="/tail" component={Tail} />
          <Route path="/explain" component={Explain} />
          <Route path="/playground" component={Playground} />
          <Route path="/tools" component={Tools} />
          <Route path="/system" component={System} />
          <Route path="/audit" component={Audit} />
          <Route path="/integrations" component={Integrations} />
          <Route path="/tokens" component={Tokens} />
          <Route path="/users" component={Users} />
          <Route path="/account" component={Account} />
          <Route default component={Nothing} />
        </Router>
      </Frame>
    </LocationProvider>
  )
}

function Frame({ children }: { children: ComponentChildren }) {
  const { path } = useLocation()
  const [open, setOpen] = useState(false)
  const content = useRef<HTMLElement>(null)
  useEffect(() => labelTables(content.current!), [])
  const here = screens.find((s) => (s.path === '/' ? path === '/' : path.startsWith(s.path)))
  useEffect(() => {
    document.title = here ? `${here.name} · Penstock` : 'Penstock'
    setOpen(false)
  }, [path])
  return (
    <>
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <header class="top">
        <button type="button" class="menu" aria-expanded={open} aria-controls="nav" onClick={() => setOpen(!open)}>
          Menu
        </button>
        <a href="/" class="brand">
          <img src="/icon.svg" alt="" width="22" height="22" /> Penstock
        </a>
        <Search />
        <span class="grow" />
        <button type="button" class="quiet-button" onClick={toggleUTC} aria-pressed={utc.value}>
          {zone()}
        </button>
        <button type="button" class="quiet-button" onClick={toggleTheme} aria-pressed={dark.value}>
          {dark.value ? 'Dark' : 'Light'}
        </button>
        <a class="role" href="/account" title="Your account">
          {[session.value?.user, session.value?.role].filter(Boolean).join(' · ')}
        </a>
        {session.value?.session && (
          <button type="button" class="quiet-button" onClick={() => void logOut()}>
            Log out
          </button>
        )}
      </header>
      <div class="body">
        <nav id="nav" class={open ? 'open' : ''} aria-label="Screens">
          {visibleScreens().map((s) => (
            <a key={s.path} href={s.path} aria-current={s === here ? 'page' : undefined}>
              {s.name}
            </a>
          ))}
        </nav>
        <main id="content" tabIndex={-1} ref={content}>
          <UndoBar />
          {children}
        </main>
      </div>
    </>
  )
}

function Nothing() {
  return (
    <>
      <h1>Nothing here</h1>
      <p>
        There is no such screen. <a href="/">To the overview</a>
      </p>
    </>
  )
}
