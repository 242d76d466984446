import caddy from '../../../../deploy/caddy/Caddyfile?raw'
import haproxy from '../../../../deploy/haproxy/haproxy.cfg?raw'
import nginx from '../../../../deploy/nginx/penstock.conf?raw'
import traefik from '../../../../deploy/traefik/dynamic.yaml?raw'
import list from './snippets.json'

// Files of deploy/ that are shown as they are, except for the address of the node. They are tested in the real servers.
const files: Record<string, string> = {
  'caddy/Caddyfile': caddy,
  'haproxy/haproxy.cfg': haproxy,
  'nginx/penstock.conf': nginx,
  'traefik/dynamic.yaml': traefik,
}

export interface Snippet {
  name: string
  about: string
  text: string
}

// snippets returns how to use a node that listens at the addresses. Tests run those of snippets.json.
export function snippets(at: Record<string, string>): Snippet[] {
  const grpc = at.grpc ?? '127.0.0.1:8081'
  const colon = grpc.lastIndexOf(':')
  const values: Record<string, string> = {
    http: at.http ?? '127.0.0.1:8090',
    gateway: at.gateway ?? '127.0.0.1:8080',
    admin: at.admin ?? '127.0.0.1:8091',
    grpc_host: grpc.slice(0, colon).replace(/^\[|\]$/g, ''),
    grpc_port: grpc.slice(colon + 1),
  }
  return list.map((s) => ({
    name: s.name,
    about: s.about,
    text: s.file
      ? files[s.file]!.replaceAll('127.0.0.1:8090', values.http!)
      : s.text!.replace(/\{(http|gateway|admin|grpc_host|grpc_port)\}/g, (_, name: string) => values[name]!),
  }))
}
