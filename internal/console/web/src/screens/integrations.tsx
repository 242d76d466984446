import { useState } from 'preact/hooks'
import type { Status } from '../types'
import { Copy, Show, useLoad } from '../ui/load'

export function Integrations() {
  const status = useLoad('/v1/status')
  return (
    <>
      <h1>Integrations</h1>
      <p class="quiet">
        Where calls can come in, with the addresses of this node filled in. The files in deploy/ are complete, and
        tested in the real servers.
      </p>
      <Show of={status}>{(s) => <Snippets status={s} />}</Show>
    </>
  )
}

interface Snippet {
  name: string
  about: string
  text: string
}

function Snippets({ status }: { status: Status }) {
  const all = snippets(status.addresses)
  const [chosen, setChosen] = useState(0)
  const s = all[chosen]!
  return (
    <>
      <div class="choice" role="group" aria-label="Integration">
        {all.map((one, i) => (
          <button key={one.name} type="button" aria-pressed={i === chosen} onClick={() => setChosen(i)}>
            {one.name}
          </button>
        ))}
      </div>
      <p>{s.about}</p>
      <div class="copy">
        <Copy text={s.text} />
        <pre tabIndex={0}>{s.text}</pre>
      </div>
    </>
  )
}

function snippets(at: Record<string, string>): Snippet[] {
  const http = at.http ?? '127.0.0.1:8090'
  const grpc = at.grpc ?? '127.0.0.1:8081'
  const gateway = at.gateway ?? '127.0.0.1:8080'
  const [grpcHost, grpcPort] = split(grpc)
  return [
    {
      name: 'curl',
      about: 'Ask for a verdict. A denial is an answer: the status is 200 either way.',
      text: `curl -s http://${http}/v1/check -d '{"attributes": {"path": "/search", "method": "GET", "user": "u1"}}'`,
    },
    {
      name: 'Gateway',
      about: 'Penstock before the service: it forwards what the rules let pass.',
      text: `penstock serve --upstream http://127.0.0.1:3000\ncurl -i http://${gateway}/`,
    },
    {
      name: 'nginx',
      about: 'Forward-auth by auth_request. The complete file is deploy/nginx/penstock.conf.',
      text: `location / {
    auth_request /penstock;
    auth_request_set $penstock_status $upstream_http_x_penstock_status;
    error_page 403 = @limited;
    proxy_pass http://backend;
}
location = /penstock {
    internal;
    proxy_pass http://${http}/v1/auth?deny_status=403;
    proxy_pass_request_body off;
    proxy_set_header Content-Length "";
    proxy_set_header X-Original-URI $request_uri;
    proxy_set_header X-Original-Method $request_method;
    proxy_set_header X-Forwarded-Host $host;
    proxy_set_header X-Forwarded-For $remote_addr;
}`,
    },
    {
      name: 'Caddy',
      about: 'Forward-auth. The complete file is deploy/caddy/Caddyfile.',
      text: `forward_auth ${http} {
    uri /v1/auth
    copy_headers RateLimit RateLimit-Policy
}`,
    },
    {
      name: 'Traefik',
      about: 'Forward-auth as a middleware. For two nodes see deploy/traefik.',
      text: `http:
  middlewares:
    penstock:
      forwardAuth:
        address: http://${http}/v1/auth`,
    },
    {
      name: 'HAProxy',
      about: 'By a small Lua action: deploy/haproxy holds both files.',
      text: `global
    lua-load /etc/haproxy/penstock.lua
frontend www
    http-request lua.penstock
listen penstock
    bind 127.0.0.1:8089
    server penstock1 ${http}`,
    },
    {
      name: 'Envoy',
      about: 'The rate limit service, v3. docs/reference/envoy.md has Istio and Envoy Gateway too.',
      text: `http_filters:
- name: envoy.filters.http.ratelimit
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
    domain: default
    timeout: 0.020s
    rate_limit_service:
      transport_api_version: V3
      grpc_service: {envoy_grpc: {cluster_name: penstock}}
clusters:
- name: penstock
  type: STRICT_DNS
  typed_extension_protocol_options:
    envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
      "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
      explicit_http_config: {http2_protocol_options: {}}
  load_assignment:
    cluster_name: penstock
    endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: ${grpcHost}, port_value: ${grpcPort}}}}}]}]`,
    },
    {
      name: 'Go',
      about: 'A middleware that asks this server. In process, without one: docs/tutorials/go.md.',
      text: `limits, err := client.New("http://${http}", client.Options{})
if err != nil {
	log.Fatal(err)
}
limiter, err := httplimit.New(limits, httplimit.Options{})
if err != nil {
	log.Fatal(err)
}
http.ListenAndServe(":3000", limiter.Wrap(handler))`,
    },
  ]
}

function split(address: string): [string, string] {
  const at = address.lastIndexOf(':')
  return [address.slice(0, at).replace(/^\[|\]$/g, ''), address.slice(at + 1)]
}
