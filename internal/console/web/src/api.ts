import { signal } from '@preact/signals'
import { type InputArgs, type Method, type PathOf, type Result, url } from './request'
import type { Problem, RuleProblem, Session } from './types'

// session is undefined before the first response, and null when no user is logged in.
export const session = signal<Session | null | undefined>(undefined)

// Each role includes the ones before it.
export const mayChange = () => session.value?.role === 'operator' || isAdmin()
export const isAdmin = () => session.value?.role === 'admin'

// Failure is a response that is an error: the problem document of the API, or a text of our own if there is none.
export class Failure extends Error {
  status: number
  problems: RuleProblem[]
  diff: string

  constructor(status: number, problem: Partial<Problem>) {
    super(describe(status, problem))
    this.status = status
    this.problems = problem.problems ?? []
    this.diff = problem.diff ?? ''
  }
}

// describe lists the errors in a request with their positions. The detail repeats them in one line, so it is left
// out.
function describe(status: number, { errors = [], detail, title }: Partial<Problem>): string {
  if (errors.length > 0) return errors.map((e) => [e.at, e.message].filter(Boolean).join(': ')).join('\n')
  return detail || title || `status ${status}`
}

// send sends a request and returns the body of its response. It throws a Failure if there is none or if it is an
// error; after a 401 the console shows the login.
async function send(method: Method, path: string, body?: unknown, signal?: AbortSignal): Promise<unknown> {
  let response: Response
  try {
    response = await fetch(path, {
      method: method.toUpperCase(),
      signal,
      credentials: 'same-origin',
      headers: body === undefined || body instanceof FormData ? {} : { 'Content-Type': 'application/json' },
      body: body === undefined || body instanceof FormData ? body : JSON.stringify(body),
    })
  } catch (err) {
    if (signal?.aborted) throw err
    throw new Failure(0, { detail: 'This node does not respond. Is it running?' })
  }
  const text = await response.text()
  if (response.ok) return text === '' ? undefined : JSON.parse(text)
  if (response.status === 401) session.value = null
  throw new Failure(response.status, readProblem(text))
}

// readProblem reads the body of an error. A proxy in between may have written it, so it can be any text.
function readProblem(text: string): Partial<Problem> {
  try {
    const body: unknown = JSON.parse(text)
    if (typeof body === 'object' && body !== null) return body
  } catch {
    // not JSON
  }
  return { detail: text }
}

// requester returns the function that sends requests with a method.
const requester =
  <M extends Method>(method: M) =>
  <P extends PathOf<M>>(path: P, ...input: InputArgs<M, P>) =>
    send(method, url(method, path, ...input), input[0]?.body, input[0]?.signal) as Promise<Result<M, P>>

export const get = requester('get')
export const post = requester('post')
export const put = requester('put')
export const del = requester('delete')

export async function whoAmI() {
  try {
    session.value = await get('/v1/session')
  } catch (err) {
    if (err instanceof Failure && err.status === 401) session.value = null
    else throw err
  }
}

export async function logOut() {
  await del('/v1/session')
  session.value = null
}
