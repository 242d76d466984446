package config

import (
	"log/slog"
	"time"

	"github.com/penstock-io/penstock/internal/urlform"
)

// Config is everything that can be configured. The tags give the name and the description of a field: the file,
// the environment, error messages and docs/reference/configuration.md all use them.
type Config struct {
	Listen         Listen     `key:"listen"`
	Upstreams      []Upstream `key:"upstreams" doc:"where the gateway sends calls; in the environment, the same YAML"`
	Gateway        Gateway    `key:"gateway"`
	GRPC           GRPC       `key:"grpc"`
	Envoy          Envoy      `key:"envoy"`
	Store          Store      `key:"store"`
	Rules          Rules      `key:"rules"`
	TrustedProxies []Network  `key:"trusted_proxies" doc:"networks whose word about the client is believed: addresses and CIDRs"`
	ClientIP       ClientIP   `key:"client_ip"`
	JWT            JWT        `key:"jwt"`
	KeySecret      Secret     `key:"key_secret" doc:"keys the hash of callers; the same on all nodes. Empty: one is made and kept in data_dir; a store in Redis needs one to be given"`
	KeySecretFile  string     `key:"key_secret_file" doc:"a file that holds key_secret"`
	Nodes          int        `key:"nodes" doc:"how many nodes share the limits, for rules that divide them while Redis does not answer; 0: learned through Redis, and kept in data_dir"`
	NodeName       string     `key:"node_name" doc:"what people call this node; empty: the host's name and some letters"`
	DataDir        string     `key:"data_dir" doc:"where the SQLite database, the last good rules and the secrets that were made are. Empty: systemd's STATE_DIRECTORY, $XDG_DATA_HOME/penstock, ~/.local/share/penstock, or /var/lib/penstock for a service without a home; the working directory if an older version left its files there"`
	Headers        []string   `key:"headers" oneof:"ietf x-ratelimit none" doc:"what clients are told"`
	Admin          Admin      `key:"admin"`
	Metrics        Metrics    `key:"metrics"`
	Log            Log        `key:"log"`

	Warnings []string // settings that work but should be changed
	Ignored  []string // variables of envoyproxy/ratelimit that are set but have no effect here, with the reason

	Demo    bool // adds the sample rules to a database without rules, and a demo upstream to a gateway without upstreams
	Traffic bool // generate demo traffic from the start
}

type Listen struct {
	Gateway    string   `key:"gateway" doc:"reverse proxy; empty turns it off, as with the others. In a demo 127.0.0.1:8080"`
	GRPC       string   `key:"grpc" doc:"Envoy's rate limit service and external authorization, decision API over gRPC, health. unix:///path is a Unix socket"`
	HTTP       string   `key:"http" doc:"decision API and forward-auth over HTTP, /healthz, /readyz"`
	Admin      string   `key:"admin" doc:"the admin API, /metrics, /healthz, /readyz. Beyond loopback only with admin.tls and admin.token"`
	Health     string   `key:"health" doc:"/healthz and /readyz and nothing else, for probes from other machines; the HTTP and admin listeners serve them too"`
	Metrics    string   `key:"metrics" doc:"/metrics and nothing else, without a token, for Prometheus: anyone who reaches it can read the names of rules and how often they decide; the admin listener serves it to those with a token"`
	Hosts      []string `key:"hosts" doc:"host names under which the HTTP and admin APIs are reached, apart from addresses and names without a dot; *.example.com is every name below example.com. Requests for other hosts are refused with 403, as a web page may have sent them (DNS rebinding). Empty: a listener on loopback accepts only loopback, any other listener every name"`
	SocketMode string   `key:"socket_mode" doc:"permissions of a Unix socket, octal; clients need the right to write"`
	Share      int      `key:"client_share" doc:"percent of a listener's connections that one IPv4 address or IPv6 /64 may hold, except trusted_proxies; its idle connections are closed first, then further ones are refused, except for health checks"`
}

type Upstream struct {
	Host        string   `key:"host" doc:"calls for this host only; *.example.com is all below it; empty is any"`
	Path        string   `key:"path" doc:"calls for this path and what is below it"`
	URL         string   `key:"url" doc:"where they go"`
	URLs        []string `key:"urls" doc:"or several servers that take turns"`
	RewriteHost bool     `key:"rewrite_host" doc:"send the host of the url rather than the one the client asked for"`
	CA          string   `key:"ca" doc:"PEM file that https servers are verified with; empty: those of the system"`
	Health      Health   `key:"health"`
}

type Health struct {
	Path      string        `key:"path" doc:"path of the health check, probed with GET; empty: no health check. Without one, and beside it, a server is ejected for 1 s to 30 s when at least half of its requests of the last 10 s, and at least 10, could not connect or timed out; at least half of the servers always stay"`
	Interval  time.Duration `key:"interval" doc:"between two probes"`
	Timeout   time.Duration `key:"timeout" doc:"of a probe"`
	Status    int           `key:"status" doc:"expected of a healthy server; 0: any from 200 to 399"`
	Healthy   int           `key:"healthy" doc:"consecutive successful probes before the server is marked healthy"`
	Unhealthy int           `key:"unhealthy" doc:"consecutive failed probes before the server is marked unhealthy"`
	Count5xx  bool          `key:"count_5xx" doc:"responses of status 500, 502, 503 and 504 count as failures, too, when a server is judged by its requests"`
}

type Gateway struct {
	TLS      ServerTLS     `key:"tls"`
	H2C      bool          `key:"h2c" doc:"HTTP/2 without TLS too"`
	Slashes  bool          `key:"keep_escaped_slashes" doc:"let paths with %2F pass; servers that take it for a slash, as nginx does, then serve under one path what was limited under another"`
	Headers  []string      `key:"forward_headers" doc:"headers to forward that by default are dropped (X-HTTP-Method-Override, X-HTTP-Method, X-Method-Override, X-HTTP-Host-Override, Proxy) or dropped unless they come from trusted_proxies (X-Original-*, X-Host, WL-Proxy-Client-IP and others): servers may take a request with them for another one than was limited"`
	Trace    bool          `key:"trace" doc:"forward TRACE and TRACK; otherwise they are answered with 501"`
	MaxDelay time.Duration `key:"max_delay" doc:"how long a leaky bucket may hold a request; one that would wait longer is denied. 0: as long as the rule's queue takes"`
	Timeouts Timeouts      `key:"timeouts"`
	Limits   Limits        `key:"limits"`
}

type GRPC struct {
	TLS        ServerTLS     `key:"tls"`
	Reflection bool          `key:"reflection" doc:"let anyone who reaches listen.grpc list its services and methods, as grpcurl does"`
	MaxAge     time.Duration `key:"max_connection_age" doc:"a client is told to open another connection after about this long, so that clients spread over nodes that were added; 0: never"`
	MaxBytes   Size          `key:"max_bytes" doc:"memory that all requests under way may hold, also those that have not arrived completely; beyond it connections are closed, of the client that holds most first. At least 4MiB; a connection has up to 100 requests of up to 1MiB"`
}

type Envoy struct {
	Health   []string `key:"health_services" doc:"further names of services that gRPC health checks may ask for; ratelimit and the full names of both services of Envoy are known"`
	Metadata bool     `key:"response_dynamic_metadata" doc:"tell Envoy the domain, descriptors and hits of each request in the dynamic metadata, as RESPONSE_DYNAMIC_METADATA of envoyproxy/ratelimit does; metadata of limits is always there"`
	Body     string   `key:"denial_body" oneof:"json plain none" doc:"what Envoy sends to a denied client: a problem document, a sentence (for gRPC routes, where it becomes the grpc-message), or nothing"`
	Headers  bool     `key:"denial_headers" doc:"send headers that only a denial has (Retry-After, Cache-Control, Content-Type). Turn it off while Envoy does not enforce denials: it adds them to the upstream's response"`

	LimitHeaders LimitHeaders `key:"response_headers"`
	Shadow       bool         `key:"shadow_mode" doc:"answer OK to every request and only count, as SHADOW_MODE of envoyproxy/ratelimit does; the statuses of descriptors still say OVER_LIMIT"`
	Quota        bool         `key:"quota_mode" doc:"with rules.envoy_ratelimit, treat every limit as if it had quota_mode: a request is denied only if all of its limits are exceeded, as with QUOTA_MODE of envoyproxy/ratelimit"`
	NegativeHits bool         `key:"negative_hits" doc:"let descriptors with is_negative_hits give hits back. Anyone who reaches listen.grpc can then raise what is left of a limit. Denials are not cached while this is on"`
	RequestID    string       `key:"request_id_key" doc:"key of the descriptor entry that carries the request id, for example request_id. The entry takes no part in matching and counting; negative hits with an id release what the request with that id was charged, once. Empty: there is none"`
}

// LimitHeaders configures the headers that envoyproxy/ratelimit adds to responses.
type LimitHeaders struct {
	Enabled   bool   `key:"enabled" doc:"add three headers about the limit with the least remaining, as LIMIT_RESPONSE_HEADERS_ENABLED of envoyproxy/ratelimit does; headers: [none] leaves only these"`
	Limit     string `key:"limit" doc:"name of the header with the limit"`
	Remaining string `key:"remaining" doc:"name of the header with what remains"`
	Reset     string `key:"reset" doc:"name of the header with the seconds until the window ends"`
}

type Metrics struct {
	Compat    string `key:"compat" oneof:"none envoy_ratelimit" doc:"also export the metrics of envoyproxy/ratelimit, under the names that its statsd-exporter mapping gives them"`
	NearLimit Ratio  `key:"near_limit_ratio" doc:"part of a limit from which hits count as near_limit, with compat: envoy_ratelimit"`
	MaxSeries int    `key:"max_series" doc:"limits, by their labels, that compat: envoy_ratelimit counts by themselves; hits under further ones count under the labels other"`
}

type ServerTLS struct {
	Certificate string   `key:"certificate" doc:"PEM file; read again when it changes"`
	Key         string   `key:"key" doc:"PEM file"`
	ClientCA    string   `key:"client_ca" doc:"PEM file; a certificate that a client shows must be signed by it"`
	Required    bool     `key:"required" doc:"refuse clients that show none"`
	ClientNames []string `key:"client_names" doc:"refuse clients whose certificate has none of these DNS names, addresses or URIs; empty: any name. Requires required"`
}

// Timeouts are the timeouts of the gateway; 0 means none.
type Timeouts struct {
	ReadHeader     time.Duration `key:"read_header" doc:"for a client to send the head of a request; 0 is none, as with the others"`
	Idle           time.Duration `key:"idle" doc:"of a connection between requests"`
	Body           time.Duration `key:"body" doc:"between two pieces of a request's body"`
	Tunnel         time.Duration `key:"tunnel" doc:"of a WebSocket on which neither side sends anything"`
	Write          time.Duration `key:"write" doc:"until the client takes a piece of the response"`
	Dial           time.Duration `key:"dial" doc:"to connect to an upstream"`
	ResponseHeader time.Duration `key:"response_header" doc:"for an upstream to begin its answer"`
	Request        time.Duration `key:"request" doc:"for a whole request; streams need none"`
	DrainDelay     time.Duration `key:"drain_delay" doc:"how long every listener stays open when the server stops and /readyz says so: longer than load balancers need to notice"`
	Drain          time.Duration `key:"drain" doc:"for calls under way to end when the server stops, at every listener"`
}

// Limits: 0 means the default if the description says so.
type Limits struct {
	HeaderBytes         Size `key:"header_bytes" doc:"of a request's head"`
	BodyBytes           Size `key:"body_bytes" doc:"of a request's body; -1 is no limit"`
	BodyRate            Size `key:"body_rate" doc:"bytes per second that a client must send of a request's body, on average, after the first timeouts.body and until the response begins; 0 is no limit"`
	QueryParameters     int  `key:"query_parameters" doc:"of a request"`
	Connections         int  `key:"connections" doc:"of clients at the same time, the others wait; 0: what open files allow"`
	Streams             int  `key:"streams" doc:"at the same time on one HTTP/2 connection"`
	HeldBytes           Size `key:"held_bytes" doc:"memory for requests that leaky buckets hold: 16 KiB each, their headers, and of their bodies at most 4 KiB, over HTTP/2 64 KiB. Each rule may hold as much as is still free, and as many requests as connections are: one rule at most half. Requests beyond that are answered with 503"`
	JSONBytes           Size `key:"json_bytes" doc:"of a request's JSON body, if rules read attributes from it, at the gateway and at forward-auth. The attributes of a larger body have their defaults"`
	UpstreamConnections int  `key:"upstream_connections" doc:"to one server at the same time; 0 is no limit"`
}

type Store struct {
	Memory Memory `key:"memory"`
	Redis  Redis  `key:"redis"`

	RedisPerSecond Redis `key:"redis_per_second"` // for limits per second in files of envoyproxy/ratelimit
}

type Memory struct {
	MaxBytes Size `key:"max_bytes" doc:"upper bound of the memory that state in this process takes; with Redis, of what it counts while Redis does not answer. A full store keeps limiting: new keys share counters"`
}

type Redis struct {
	Addresses            []string      `key:"addresses" doc:"host:port of the server, the sentinels or some nodes of the cluster, or unix:///path of a single server. Empty: state is in memory; of redis_per_second, which counts the limits per second of rules.envoy_ratelimit: they are in store.redis with the others"`
	Mode                 string        `key:"mode" oneof:"single sentinel cluster" doc:"how the servers are arranged"`
	Master               string        `key:"master" doc:"the name that sentinels know the master by"`
	Timeout              time.Duration `key:"timeout" doc:"how long Redis may be silent at most; then the rule's on_store_error decides. Where Redis is quick it is less, down to 10ms"`
	KeyPrefix            string        `key:"key_prefix" doc:"of every key"`
	Username             string        `key:"username"`
	Password             Secret        `key:"password"`
	PasswordFile         string        `key:"password_file" doc:"a file that holds password"`
	SentinelUsername     string        `key:"sentinel_username"`
	SentinelPassword     Secret        `key:"sentinel_password"`
	SentinelPasswordFile string        `key:"sentinel_password_file" doc:"a file that holds sentinel_password"`
	TLS                  ClientTLS     `key:"tls"`
}

type ClientTLS struct {
	Enabled     bool   `key:"enabled"`
	CA          string `key:"ca" doc:"PEM file; empty: those of the system"`
	Certificate string `key:"certificate" doc:"PEM file, to show to the server"`
	Key         string `key:"key" doc:"PEM file"`
	ServerName  string `key:"server_name" doc:"that the server's certificate is for; empty: its address"`
}

type Rules struct {
	File         string        `key:"file" doc:"a file or a directory of them"`
	Database     Secret        `key:"database" doc:"sqlite:FILE or postgres://…; FILE is relative to data_dir if that is set, else to the working directory. sqlite:penstock.db in data_dir if rules come from nowhere else"`
	DatabaseFile string        `key:"database_file" doc:"a file that holds database, which may have a password in it"`
	Envoy        string        `key:"envoy_ratelimit" doc:"a directory of envoyproxy/ratelimit files, served as they are"`
	Charge       string        `key:"charge" oneof:"alone together unless_over" doc:"how envoy_ratelimit charges the descriptors of a request: each by itself and denied ones too; all or none; or, if some would exceed their limits, only those, as STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT of envoyproxy/ratelimit does"`
	XDS          XDS           `key:"xds"`
	Bans         bool          `key:"bans" doc:"with envoy_ratelimit, keys can be banned by hand. Every request then looks for a ban, and denials are not cached"`
	MergeDomains bool          `key:"merge_domains" doc:"several files of envoy_ratelimit may say something of one domain"`
	Redis        bool          `key:"redis" doc:"rules come through the store's Redis, where a node with the database publishes them"`
	PollInterval time.Duration `key:"poll_interval" doc:"between two looks for new rules; changes are usually told sooner"`
}

// XDS is a management server that pushes limits in the format of envoyproxy/ratelimit.
type XDS struct {
	Server   string    `key:"server" doc:"host:port of a management server that pushes limits in the format of envoyproxy/ratelimit, as with CONFIG_TYPE=GRPC_XDS_SOTW there; Envoy Gateway is one. The last limits are kept in data_dir, for a start without the server"`
	NodeID   string    `key:"node_id" doc:"that the server knows this node by; several nodes can share one"`
	Metadata []string  `key:"node_metadata" doc:"of the node, each name=value"`
	Headers  []Secret  `key:"headers" doc:"to send to the server, each name=value"`
	MaxBytes Size      `key:"max_bytes" doc:"of what the server sends at once"`
	Empty    bool      `key:"start_without_limits" doc:"if the server has sent nothing 5s after the start, serve without limits until it does; otherwise the start waits a minute and then fails"`
	TLS      ClientTLS `key:"tls"`
}

type ClientIP struct {
	Header     string `key:"header" doc:"the one header believed from trusted proxies: X-Forwarded-For, Forwarded, or one that holds a single address"`
	IPv6Prefix int    `key:"ipv6_prefix" doc:"clients of one such IPv6 network count as one, in rules by ip; rules can count wider networks too (key: [ip/48])"`
}

type JWT struct {
	JWKSURL    SecretURL     `key:"jwks_url" doc:"where the issuer of tokens publishes its keys"`
	JWKSFile   string        `key:"jwks_file" doc:"or a file of them, read at the start"`
	Secret     Secret        `key:"secret" doc:"or the secret of tokens signed with HMAC, at least 32 bytes"`
	SecretFile string        `key:"secret_file" doc:"a file that holds secret"`
	Algorithms []string      `key:"algorithms" doc:"that tokens may be signed with; empty: all sound ones for such keys"`
	Issuer     string        `key:"issuer" doc:"that tokens must have; empty: any"`
	Audience   string        `key:"audience" doc:"that tokens must be for; empty: any"`
	Leeway     time.Duration `key:"leeway" doc:"how far the issuer's clock may differ"`
	Refresh    time.Duration `key:"refresh" doc:"between two looks at jwks_url; unknown keys are looked for sooner"`
	Header     string        `key:"header" doc:"the header of the token; empty: Authorization"`
	Cookie     string        `key:"cookie" doc:"or its cookie"`
	Reject     bool          `key:"reject" doc:"refuse requests whose token is not valid; otherwise they have no claims"`
}

type Admin struct {
	Token           Secret   `key:"token" doc:"bearer token with the role admin, for the first start and for emergencies; empty: one is made at the first start, printed once and kept in data_dir as admin_token"`
	TokenFile       string   `key:"token_file" doc:"a file that holds token"`
	ViewerToken     Secret   `key:"viewer_token" doc:"bearer token of those who may only look, Prometheus among them; empty: there are none"`
	ViewerTokenFile string   `key:"viewer_token_file" doc:"a file that holds viewer_token"`
	Database        Secret   `key:"database" doc:"sqlite:FILE or postgres://… that holds users, API tokens and the audit if rules are not in a database; FILE is relative to data_dir. With rules.database, they are there"`
	DatabaseFile    string   `key:"database_file" doc:"a file that holds database, which may have a password in it"`
	TLS             AdminTLS `key:"tls"`
}

type AdminTLS struct {
	Certificate string `key:"certificate" doc:"PEM file; read again when it changes"`
	Key         string `key:"key" doc:"PEM file"`
}

type Log struct {
	Level     string `key:"level" oneof:"debug info warn error"`
	Format    string `key:"format" oneof:"auto json text" doc:"auto: text on a terminal, else json"`
	Decisions string `key:"decisions" oneof:"all sampled none" doc:"sampled: of each rule the first, every power of ten, and a summary each 10 s"`

	Replay         string `key:"replay" doc:"file to write every request and its verdict to, with the attributes that name clients, for penstock backtest; empty: none. Its mode must be 0600; it is appended to"`
	ReplayMaxBytes Size   `key:"replay_max_bytes" doc:"no more is written to the replay log when it has this size"`
}

// Secret is text that must not be shown.
type Secret string

func (Secret) String() string { return "…" }

// SecretURL is a URL that may contain a password or a token, which must not be shown.
type SecretURL string

func (u SecretURL) String() string { return urlform.Redact(string(u)) }

// LogValue returns the URL as logs show it.
func (u SecretURL) LogValue() slog.Value { return slog.StringValue(u.String()) }

func Default() *Config {
	return &Config{
		Listen:   Listen{Gateway: ":8080", GRPC: "127.0.0.1:8081", HTTP: "127.0.0.1:8090", Admin: "127.0.0.1:8091", SocketMode: "0660", Share: 50},
		ClientIP: ClientIP{Header: "X-Forwarded-For", IPv6Prefix: 64},
		Gateway: Gateway{
			Timeouts: Timeouts{
				ReadHeader: 5 * time.Second, Idle: time.Minute, Body: 30 * time.Second, Tunnel: 10 * time.Minute, Write: 30 * time.Second,
				Dial: 3 * time.Second, ResponseHeader: time.Minute, Drain: 10 * time.Second,
			},
			Limits: Limits{HeaderBytes: 16 << 10, BodyBytes: 1 << 20, BodyRate: 1 << 10, QueryParameters: 1000, Streams: 100, HeldBytes: 128 << 20, JSONBytes: 1 << 20},
		},
		GRPC:  GRPC{MaxBytes: 128 << 20},
		Envoy: Envoy{Body: "json", Headers: true, LimitHeaders: LimitHeaders{Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset"}},
		Store: Store{
			Memory: Memory{MaxBytes: 1 << 30},
			Redis:  defaultRedis(), RedisPerSecond: defaultRedis(),
		},
		JWT:     JWT{Refresh: time.Hour},
		Rules:   Rules{PollInterval: 5 * time.Second, Charge: "alone", XDS: XDS{NodeID: "default", MaxBytes: 16 << 20}},
		Headers: []string{"ietf"},
		Metrics: Metrics{Compat: "none", NearLimit: 0.8, MaxSeries: 10_000},
		Log:     Log{Level: "info", Format: "auto", Decisions: "sampled", ReplayMaxBytes: 1 << 30},
	}
}

func defaultRedis() Redis {
	return Redis{Mode: "single", Timeout: 50 * time.Millisecond, KeyPrefix: "pen:"}
}

func DefaultUpstream() Upstream {
	return Upstream{Path: "/", Health: Health{
		Interval: 5 * time.Second, Timeout: 2 * time.Second, Healthy: 2, Unhealthy: 3,
	}}
}

// setDefaults is called by the reader before it reads an item of a list.
func (u *Upstream) setDefaults() { *u = DefaultUpstream() }
