// The type of every request: which paths exist, what each of them accepts, and what it returns. All of it follows from
// docs/admin-openapi.json, so a request that the API does not know, or a misspelled field, does not compile.
import type { paths } from './schema.gen'

export type Method = 'get' | 'post' | 'put' | 'delete'

// PathOf is the paths that have a method.
export type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P] extends Record<M, object> ? P : never
}[keyof paths]

type Operation<M extends Method, P extends keyof paths> = NonNullable<paths[P][M]>

// Result is the JSON body of a successful response; undefined if it has none.
export type Result<M extends Method, P extends keyof paths> =
  Operation<M, P> extends { responses: { 200: { content: { 'application/json': infer T } } } } ? T : undefined

type PathParams<O> = O extends { parameters: { path: infer T } } ? { path: T } : { path?: undefined }
type QueryParams<O> = O extends { parameters: { query?: infer T } } ? { query?: T } : { query?: undefined }
type Body<O> = O extends { requestBody: { content: { 'application/json': infer T } } }
  ? { body: T }
  : { body?: undefined }

// Input is what a request carries.
export type Input<M extends Method, P extends keyof paths> = PathParams<Operation<M, P>> &
  QueryParams<Operation<M, P>> &
  Body<Operation<M, P>> & { signal?: AbortSignal }

// InputArgs is the Input as arguments: it can be left out where nothing in it is required.
export type InputArgs<M extends Method, P extends keyof paths> =
  object extends Input<M, P> ? [input?: Input<M, P>] : [input: Input<M, P>]

type Values = Record<string, string | number | boolean | undefined>

// query returns "?a=b" for the values that are not empty.
export function query(values: Values): string {
  const params = new URLSearchParams()
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== '' && value !== false) params.set(name, String(value))
  }
  const text = params.toString()
  return text === '' ? '' : `?${text}`
}

// url fills in the parameters of a path such as /v1/rules/{name}/overrides.
export function url<M extends Method, P extends PathOf<M>>(_method: M, path: P, ...[input]: InputArgs<M, P>): string {
  const values = (input?.path ?? {}) as Values
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(values[name])))
  return filled + query((input?.query ?? {}) as Values)
}
