import { signal } from '@preact/signals'
import type { Problem, Session } from './types'

// session is undefined before the first answer, and null when nobody is logged in.
export const session = signal<Session | null | undefined>(undefined)

export const mayChange = () => session.value?.role === 'operator'

// Failure is what the API says about a request that it refused.
export class Failure extends Error {
  status: number
  code: string
  problems: Problem[]
  diff: string
  retryAfter: number

  constructor(status: number, body: Record<string, unknown>, retryAfter: number) {
    const mistakes = (body.errors as { field?: string; pointer?: string; detail?: string; message?: string }[] | undefined) ?? []
    const texts = mistakes.map((m) => [m.field ?? m.pointer, m.detail ?? m.message].filter(Boolean).join(': '))
    super([(body.detail as string) ?? (body.title as string) ?? `status ${status}`, ...texts].filter(Boolean).join('\n'))
    this.status = status
    this.code = (body.code as string) ?? ''
    this.problems = (body.problems as Problem[]) ?? []
    this.diff = (body.diff as string) ?? ''
    this.retryAfter = retryAfter
  }
}

// ask sends a request and returns the answer. Who is not logged in any more gets to the login.
export async function ask<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  let response: Response
  try {
    response = await fetch(path, {
      method,
      signal,
      credentials: 'same-origin',
      headers: body === undefined ? {} : { 'Content-Type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
    })
  } catch (err) {
    if (signal?.aborted) throw err
    throw new Failure(0, { detail: 'This node does not answer. Is it running?' }, 0)
  }
  const text = await response.text()
  let answer: unknown
  try {
    answer = text === '' ? undefined : JSON.parse(text)
  } catch {
    answer = { detail: text }
  }
  if (!response.ok) {
    if (response.status === 401) session.value = null
    throw new Failure(response.status, (answer ?? {}) as Record<string, unknown>, Number(response.headers.get('Retry-After') ?? 0))
  }
  return answer as T
}

export const get = <T>(path: string, signal?: AbortSignal) => ask<T>('GET', path, undefined, signal)
export const post = <T>(path: string, body: unknown = {}, signal?: AbortSignal) => ask<T>('POST', path, body, signal)

// query makes ?a=b of what is not empty.
export function query(of: Record<string, string | number | boolean | undefined>): string {
  const q = new URLSearchParams()
  for (const [name, value] of Object.entries(of)) {
    if (value !== undefined && value !== '' && value !== false) q.set(name, String(value))
  }
  const text = q.toString()
  return text === '' ? '' : '?' + text
}

export async function whoAmI() {
  try {
    session.value = await get<Session>('/v1/session')
  } catch (err) {
    if (err instanceof Failure && err.status === 401) session.value = null
    else throw err
  }
}

export async function logOut() {
  await ask('DELETE', '/v1/session')
  session.value = null
}
