package config

import (
	"log/slog"
	"strconv"
	"time"

	"github.com/penstock-io/penstock/internal/secret"
	"github.com/penstock-io/penstock/internal/urlform"
)

// Config is everything that can be configured. The tags give the name and the description of a field: the file,
// the environment, error messages and docs/reference/configuration.md all use them.
type Config struct {
	Listen         Listen     `key:"listen"`
	Upstreams      []Upstream `key:"upstreams" doc:"servers behind the gateway; the environment variable takes the same YAML"`
	Gateway        Gateway    `key:"gateway"`
	GRPC           GRPC       `key:"grpc"`
	Envoy          Envoy      `key:"envoy"`
	Store          Store      `key:"store"`
	Rules          Rules      `key:"rules"`
	TrustedProxies []Network  `key:"trusted_proxies" doc:"addresses and CIDRs of proxies whose client address headers are trusted"`
	ClientIP       ClientIP   `key:"client_ip"`
	JWT            JWT        `key:"jwt"`
	KeySecret      Secret     `key:"key_secret" doc:"secret for hashing keys; must be the same on all nodes. Empty: generated and stored in data_dir; required when store.redis is set"`
	KeySecretFile  string     `key:"key_secret_file" doc:"file that contains key_secret"`
	Nodes          int        `key:"nodes" doc:"number of nodes that share the limits; rules with the divided fallback split their limits by it while Redis is unavailable. 0: detected through Redis and stored in data_dir"`
	NodeName       string     `key:"node_name" doc:"display name of this node; empty: the host name and a random suffix"`
	DataDir        string     `key:"data_dir" doc:"directory for the SQLite database, the last valid rules and generated secrets. Empty: systemd's STATE_DIRECTORY, $XDG_DATA_HOME/penstock, ~/.local/share/penstock, or /var/lib/penstock for a service without a home directory; the working directory if an older version left its files there"`
	Headers        []string   `key:"headers" oneof:"ietf x-ratelimit x-ratelimit-unix none" doc:"rate limit headers to send to clients. X-RateLimit-Reset is in seconds from now with x-ratelimit, and in Unix time with x-ratelimit-unix, as clients of GitHub expect it"`
	Admin          Admin      `key:"admin"`
	Metrics        Metrics    `key:"metrics"`
	Log            Log        `key:"log"`

	Warnings []string // settings that work but should be changed
	Ignored  []string // variables of envoyproxy/ratelimit that are set but have no effect here, with the reason

	// AdminOptional lets the server start without the admin listener if its address is taken: nobody has asked for it.
	AdminOptional bool

	Demo    bool // adds the sample rules to a database without rules, and a demo upstream to a gateway without upstreams
	Traffic bool // generate demo traffic from the start
}

type Listen struct {
	Gateway    string   `key:"gateway" doc:"address of the reverse proxy. Empty disables a listener. The demo uses 127.0.0.1:8080"`
	GRPC       string   `key:"grpc" doc:"Envoy's rate limit service and external authorization, the decision API over gRPC, and gRPC health checks. unix:///path listens on a Unix socket"`
	HTTP       string   `key:"http" doc:"the decision API and forward-auth over HTTP, /healthz and /readyz"`
	Admin      string   `key:"admin" doc:"the console, the admin API, /metrics, /healthz and /readyz. An address beyond loopback requires admin.tls and admin.token"`
	Health     string   `key:"health" doc:"only /healthz and /readyz, for probes from other machines; the HTTP and admin listeners serve them too"`
	Metrics    string   `key:"metrics" doc:"only /metrics, without authentication, for Prometheus. Anyone who can connect can read rule names and decision counts; the admin listener serves /metrics with a token"`
	Hosts      []string `key:"hosts" doc:"host names that the HTTP and admin APIs accept, besides IP addresses and names without a dot; *.example.com matches all its subdomains. Requests for other hosts get 403, which prevents DNS rebinding. Empty: listeners on loopback accept only loopback names, other listeners accept every name"`
	SocketMode string   `key:"socket_mode" doc:"permissions of Unix sockets, in octal; clients need write permission"`
	Share      int      `key:"client_share" doc:"percentage of a listener's connections that one IPv4 address or IPv6 /64 may hold; trusted_proxies are exempt. Beyond it the address's idle connections are closed, then new ones are refused, except for health checks"`
}

type Upstream struct {
	Host        string   `key:"host" doc:"match requests for this host; *.example.com matches all its subdomains; empty: any host"`
	Path        string   `key:"path" doc:"match requests for this path and everything below it"`
	URL         string   `key:"url" doc:"URL of the server: http, https, or h2c for HTTP/2 without TLS, as gRPC servers speak it"`
	URLs        []string `key:"urls" doc:"URLs of several servers, used in turn; instead of url"`
	RewriteHost bool     `key:"rewrite_host" doc:"send the host of the URL in the Host header instead of the client's"`
	CA          string   `key:"ca" doc:"PEM file of CA certificates for verifying https servers; empty: the system's"`
	Health      Health   `key:"health"`
}

type Health struct {
	Path      string        `key:"path" doc:"path that health checks probe with GET; empty: no health checks. In either case, a server is ejected for 1 s to 30 s if at least half of its requests in the last 10 s, and at least 10, failed to connect or timed out; at most half of the servers are ejected at a time"`
	Interval  time.Duration `key:"interval" doc:"time between probes"`
	Timeout   time.Duration `key:"timeout" doc:"timeout of a probe"`
	Status    int           `key:"status" doc:"status that a healthy server returns; 0: any from 200 to 399"`
	Healthy   int           `key:"healthy" doc:"consecutive successful probes before the server is marked healthy"`
	Unhealthy int           `key:"unhealthy" doc:"consecutive failed probes before the server is marked unhealthy"`
	Count5xx  bool          `key:"count_5xx" doc:"also count responses with status 500, 502, 503 and 504 as failures when deciding whether to eject a server"`
}

type Gateway struct {
	TLS      ServerTLS     `key:"tls"`
	H2C      bool          `key:"h2c" doc:"also accept HTTP/2 without TLS"`
	FastPath bool          `key:"fast_path" doc:"serve common HTTP/1.1 requests without TLS and without a body with less processor time, by a server that hands all other requests to Go's net/http, and forward them to servers without TLS by a client that leaves all but common responses to net/http. false: net/http serves and forwards every request"`
	Slashes  bool          `key:"keep_escaped_slashes" doc:"accept paths with %2F. Servers that decode it to a slash, such as nginx, then serve a different path than the one that was limited"`
	Headers  []string      `key:"forward_headers" doc:"headers to forward although they are dropped by default (X-HTTP-Method-Override, X-HTTP-Method, X-Method-Override, X-HTTP-Host-Override, Proxy) or dropped unless trusted_proxies send them (X-Original-*, X-Host, WL-Proxy-Client-IP and others). With them, a server may serve a different request than the one that was limited"`
	Trace    bool          `key:"trace" doc:"forward TRACE and TRACK requests; otherwise they get 501"`
	MaxDelay time.Duration `key:"max_delay" doc:"maximum time a leaky bucket delays a request; requests that would wait longer are denied. 0: only the rule's queue limits the delay"`
	Timeouts Timeouts      `key:"timeouts"`
	Limits   Limits        `key:"limits"`
}

type GRPC struct {
	TLS        ServerTLS     `key:"tls"`
	Reflection bool          `key:"reflection" doc:"enable gRPC server reflection: anyone who can connect to listen.grpc can list its services and methods, for example with grpcurl"`
	MaxAge     time.Duration `key:"max_connection_age" doc:"approximate age at which clients are asked to reconnect, so that they spread to new nodes; 0: never"`
	MaxBytes   Size          `key:"max_bytes" doc:"memory for all requests in flight, including partially received ones. Beyond it connections are closed, starting with the client that uses the most. At least 4MiB; a connection can have 100 requests of 1MiB each"`
}

type Envoy struct {
	Health   []string `key:"health_services" doc:"additional service names for gRPC health checks, besides ratelimit and the full names of the two Envoy services"`
	Metadata bool     `key:"response_dynamic_metadata" doc:"return the domain, descriptors and hits of each request as dynamic metadata, like RESPONSE_DYNAMIC_METADATA of envoyproxy/ratelimit"`
	Remarks  bool     `key:"dynamic_metadata" doc:"return dynamic metadata: that of limits, and under penstock the rule and reason of a denial, denials by shadow rules and the quality. false: only with response_dynamic_metadata"`
	Body     string   `key:"denial_body" oneof:"json plain none" doc:"body that Envoy sends to denied clients: json: a problem document; plain: one sentence, for gRPC routes, where it becomes the grpc-message; none: an empty body"`
	Headers  bool     `key:"denial_headers" doc:"send Retry-After, Cache-Control and Content-Type with denials. Disable this while Envoy does not enforce denials, because Envoy then adds them to the upstream's response"`

	LimitHeaders LimitHeaders `key:"response_headers"`
	Shadow       bool         `key:"shadow_mode" doc:"count requests but return OK for each, like SHADOW_MODE of envoyproxy/ratelimit; descriptor statuses still say OVER_LIMIT"`
	Quota        bool         `key:"quota_mode" doc:"with rules.envoy_ratelimit, apply quota_mode to every limit: a request is denied only if all its limits are exceeded, like QUOTA_MODE of envoyproxy/ratelimit"`
	NegativeHits bool         `key:"negative_hits" doc:"accept descriptors with is_negative_hits, which return hits. Anyone who can connect to listen.grpc can then raise the remaining quota of a limit. Disables the deny cache"`
	RequestID    string       `key:"request_id_key" doc:"key of the descriptor entry that contains the request ID, for example request_id. The entry is ignored for matching and counting; negative hits with an ID release the charge of the request with that ID, once. Empty: no request IDs"`
}

// LimitHeaders configures the headers that envoyproxy/ratelimit adds to responses.
type LimitHeaders struct {
	Enabled   bool   `key:"enabled" doc:"add three headers about the limit with the least remaining, like LIMIT_RESPONSE_HEADERS_ENABLED of envoyproxy/ratelimit; set headers to none to send only these"`
	Limit     string `key:"limit" doc:"name of the header with the limit"`
	Remaining string `key:"remaining" doc:"name of the header with the remaining quota"`
	Reset     string `key:"reset" doc:"name of the header with the seconds until the window ends"`
}

type Metrics struct {
	Compat    string `key:"compat" oneof:"none envoy_ratelimit" doc:"envoy_ratelimit: also export the metrics of envoyproxy/ratelimit, under the names of its statsd-exporter mapping"`
	NearLimit Ratio  `key:"near_limit_ratio" doc:"fraction of a limit above which hits count as near_limit, with compat: envoy_ratelimit"`
	Cached    bool   `key:"local_cache" doc:"with compat: envoy_ratelimit, also count hits that were denied from memory as over_limit_with_local_cache. envoyproxy/ratelimit does so only with LOCAL_CACHE_SIZE_IN_BYTES"`
	MaxSeries int    `key:"max_series" doc:"maximum number of limits with label values of their own, with compat: envoy_ratelimit; hits of all others are counted under the label value other"`
}

type ServerTLS struct {
	Certificate string   `key:"certificate" doc:"PEM file; reloaded when it changes"`
	Key         string   `key:"key" doc:"PEM file"`
	ClientCA    string   `key:"client_ca" doc:"PEM file of CA certificates for verifying client certificates"`
	Required    bool     `key:"required" doc:"reject clients without a certificate"`
	ClientNames []string `key:"client_names" doc:"reject clients whose certificate has none of these DNS names, addresses or URIs; empty: any name. Requires required: true"`
}

// Timeouts are the timeouts of the gateway; 0 means none.
type Timeouts struct {
	ReadHeader     time.Duration `key:"read_header" doc:"timeout for a client to send the request headers. 0 disables any of these timeouts"`
	Idle           time.Duration `key:"idle" doc:"timeout of an idle connection between requests"`
	Body           time.Duration `key:"body" doc:"timeout of one read of a request body"`
	Tunnel         time.Duration `key:"tunnel" doc:"timeout of a WebSocket connection without traffic in either direction"`
	Write          time.Duration `key:"write" doc:"timeout of one write of a response to the client"`
	Dial           time.Duration `key:"dial" doc:"timeout for connecting to an upstream server"`
	ResponseHeader time.Duration `key:"response_header" doc:"timeout for an upstream server to begin its response"`
	Request        time.Duration `key:"request" doc:"timeout for a whole request; leave it at 0 if you serve streams"`
	DrainDelay     time.Duration `key:"drain_delay" doc:"time between /readyz turning unready and the listeners closing when the server stops; set it longer than load balancers need to notice"`
	Drain          time.Duration `key:"drain" doc:"timeout for requests in flight to finish when the server stops, on every listener"`
}

// Limits: 0 means the default if the description says so.
type Limits struct {
	HeaderBytes         Size `key:"header_bytes" doc:"maximum size of the request headers"`
	BodyBytes           Size `key:"body_bytes" doc:"maximum size of a request body; -1: no limit"`
	BodyRate            Size `key:"body_rate" doc:"minimum rate in bytes per second at which a client must send a request body until the response begins, over every timeouts.body; 0: no minimum"`
	QueryParameters     int  `key:"query_parameters" doc:"maximum number of query parameters in a request"`
	Connections         int  `key:"connections" doc:"maximum number of concurrent client connections; further ones wait. 0: derived from the open file limit, at most 1,048,576 of it"`
	Streams             int  `key:"streams" doc:"maximum number of concurrent streams per HTTP/2 connection"`
	HeldBytes           Size `key:"held_bytes" doc:"memory for requests delayed by leaky buckets: 16 KiB each, plus headers and up to 4 KiB of the body (64 KiB over HTTP/2). A rule may use as much as is still free, so one rule uses at most half; the number of delayed requests is limited the same way, by limits.connections. Further requests get 503"`
	JSONBytes           Size `key:"json_bytes" doc:"maximum size of a JSON body that rules read attributes from, at the gateway and forward-auth. on_unreadable of the attribute says what happens to a request with a larger one"`
	UpstreamConnections int  `key:"upstream_connections" doc:"maximum number of concurrent connections to one upstream server; 0: no limit"`
}

type Store struct {
	Memory Memory `key:"memory"`
	Redis  Redis  `key:"redis"`

	RedisPerSecond Redis `key:"redis_per_second"` // for limits per second in files of envoyproxy/ratelimit
}

type Memory struct {
	MaxBytes Size `key:"max_bytes" doc:"maximum memory for counters in this process; with Redis, for the counters of the local fallback. A full store keeps limiting: new keys share counters"`
}

type Redis struct {
	Addresses            []string      `key:"addresses" doc:"host:port of the server, the sentinels or some cluster nodes, or unix:///path of a single server. Empty: counters are in memory. redis_per_second holds the per-second limits of rules.envoy_ratelimit; if it is empty, they are in store.redis like the others"`
	Mode                 string        `key:"mode" oneof:"single sentinel cluster" doc:"Redis deployment type"`
	Master               string        `key:"master" doc:"master name configured in Sentinel"`
	Timeout              time.Duration `key:"timeout" doc:"maximum time to wait for Redis; after it the rule's on_store_error decides. If Redis is fast the timeout adapts, down to 10ms"`
	KeyPrefix            string        `key:"key_prefix" doc:"prefix of every Redis key"`
	Username             string        `key:"username"`
	Password             Secret        `key:"password"`
	PasswordFile         string        `key:"password_file" doc:"file that contains password"`
	SentinelUsername     string        `key:"sentinel_username"`
	SentinelPassword     Secret        `key:"sentinel_password"`
	SentinelPasswordFile string        `key:"sentinel_password_file" doc:"file that contains sentinel_password"`
	TLS                  ClientTLS     `key:"tls"`
}

type ClientTLS struct {
	Enabled     bool   `key:"enabled"`
	CA          string `key:"ca" doc:"PEM file of CA certificates; empty: the system's"`
	Certificate string `key:"certificate" doc:"PEM file with the client certificate"`
	Key         string `key:"key" doc:"PEM file"`
	ServerName  string `key:"server_name" doc:"name expected in the server certificate; empty: the host in the address"`
}

type Rules struct {
	File         string        `key:"file" doc:"rules file, or a directory of rules files"`
	Database     Secret        `key:"database" doc:"sqlite:FILE or postgres://…; FILE is relative to data_dir if set, otherwise to the working directory. If no other source of rules is configured, sqlite:penstock.db in data_dir is used"`
	DatabaseFile string        `key:"database_file" doc:"file that contains database, for example if the URL includes a password"`
	Envoy        string        `key:"envoy_ratelimit" doc:"directory of envoyproxy/ratelimit configuration files, served unchanged"`
	Charge       string        `key:"charge" oneof:"alone together unless_over" doc:"how envoy_ratelimit charges the descriptors of a request. alone: each separately, including denied ones; together: all or none; unless_over: if some would exceed their limits, only those, like STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT of envoyproxy/ratelimit"`
	XDS          XDS           `key:"xds"`
	Bans         bool          `key:"bans" doc:"with envoy_ratelimit, allow operators to ban keys. Every request then checks for a ban, and the deny cache is disabled"`
	MergeDomains bool          `key:"merge_domains" doc:"allow several envoy_ratelimit files to configure the same domain"`
	Redis        bool          `key:"redis" doc:"read rules from store.redis, where a node with rules.database publishes them"`
	PollInterval time.Duration `key:"poll_interval" doc:"time between checks for new rules; nodes are usually notified sooner"`
}

// XDS is a management server that pushes limits in the format of envoyproxy/ratelimit.
type XDS struct {
	Server   string    `key:"server" doc:"host:port of an xDS management server that pushes limits in the format of envoyproxy/ratelimit, such as Envoy Gateway; like CONFIG_TYPE=GRPC_XDS_SOTW. The last limits are stored in data_dir and used if the server is unavailable at startup"`
	NodeID   string    `key:"node_id" doc:"node ID sent to the xDS server; several nodes can share one"`
	Metadata []string  `key:"node_metadata" doc:"node metadata sent to the xDS server, each name=value"`
	Headers  []Secret  `key:"headers" doc:"headers sent to the xDS server, each name=value"`
	MaxBytes Size      `key:"max_bytes" doc:"maximum size of one message from the xDS server"`
	Empty    bool      `key:"start_without_limits" doc:"if the server has sent nothing within 5s of startup, serve without limits until it does; otherwise startup fails after a minute"`
	TLS      ClientTLS `key:"tls"`
}

type ClientIP struct {
	Header     string `key:"header" doc:"header from which the client address is read if a trusted proxy sends it: X-Forwarded-For, Forwarded, or a header with a single address"`
	IPv6Prefix int    `key:"ipv6_prefix" doc:"prefix length of the IPv6 networks that rules by ip count as one client; a rule can count larger networks (key: [ip/48])"`
}

type JWT struct {
	JWKSURL    SecretURL     `key:"jwks_url" doc:"URL of the token issuer's JWKS"`
	JWKSFile   string        `key:"jwks_file" doc:"file with the JWKS, read at startup; instead of jwks_url"`
	Secret     Secret        `key:"secret" doc:"secret of HMAC-signed tokens, at least 32 bytes; instead of a JWKS"`
	SecretFile string        `key:"secret_file" doc:"file that contains secret"`
	Algorithms []string      `key:"algorithms" doc:"accepted signature algorithms; empty: all secure ones for the configured keys"`
	Issuer     string        `key:"issuer" doc:"required issuer (iss); empty: any"`
	Audience   string        `key:"audience" doc:"required audience (aud); empty: any"`
	Leeway     time.Duration `key:"leeway" doc:"accepted clock difference to the issuer"`
	Refresh    time.Duration `key:"refresh" doc:"time between fetches of jwks_url; unknown key IDs trigger an earlier fetch"`
	Header     string        `key:"header" doc:"header that contains the token; empty: Authorization"`
	Cookie     string        `key:"cookie" doc:"cookie that contains the token; instead of header"`
	Reject     bool          `key:"reject" doc:"reject requests with an invalid token; otherwise they have no claims, and rules that need one do not apply to them"`
}

type Admin struct {
	Token           Secret   `key:"token" doc:"bearer token with the admin role, for setup and emergencies. Empty: generated on first start, printed once and stored in data_dir as admin_token"`
	TokenFile       string   `key:"token_file" doc:"file that contains token"`
	ViewerToken     Secret   `key:"viewer_token" doc:"bearer token with the viewer role (read-only), for example for Prometheus; empty: none"`
	ViewerTokenFile string   `key:"viewer_token_file" doc:"file that contains viewer_token"`
	Database        Secret   `key:"database" doc:"sqlite:FILE or postgres://… for users, API tokens and the audit log if rules are not in a database; FILE is relative to data_dir. With rules.database, they are stored there"`
	DatabaseFile    string   `key:"database_file" doc:"file that contains database, for example if the URL includes a password"`
	TLS             AdminTLS `key:"tls"`
}

type AdminTLS struct {
	Certificate string `key:"certificate" doc:"PEM file; reloaded when it changes"`
	Key         string `key:"key" doc:"PEM file"`
}

type Log struct {
	Level     string `key:"level" oneof:"debug info warn error"`
	Format    string `key:"format" oneof:"auto json text" doc:"auto: text on a terminal, otherwise json"`
	Decisions string `key:"decisions" oneof:"all sampled none" doc:"sampled: for each rule the first decision, then the 10th, 100th and so on, and a summary every 10 s"`

	Replay         string `key:"replay" doc:"file that records every request and its verdict, including the attributes that identify clients, for penstock backtest; empty: none. An existing file is appended to and must have mode 0600"`
	ReplayMaxBytes Size   `key:"replay_max_bytes" doc:"size at which recording to the replay log stops"`
}

// Secret is text that must not be shown.
type Secret = secret.Text

// SecretURL is a URL that may contain a password or a token, which must not be shown.
type SecretURL string

func (u SecretURL) String() string { return urlform.Redact(string(u)) }

// GoString implements fmt.GoStringer.
func (u SecretURL) GoString() string { return strconv.Quote(u.String()) }

// LogValue returns the URL as logs show it.
func (u SecretURL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalText implements encoding.TextMarshaler.
func (u SecretURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

func Default() *Config {
	return &Config{
		Listen:   Listen{Gateway: ":8080", GRPC: "127.0.0.1:8081", HTTP: "127.0.0.1:8090", Admin: "127.0.0.1:8091", SocketMode: "0660", Share: 50},
		ClientIP: ClientIP{Header: "X-Forwarded-For", IPv6Prefix: 64},
		Gateway: Gateway{
			FastPath: true,
			Timeouts: Timeouts{
				ReadHeader: 5 * time.Second, Idle: time.Minute, Body: 30 * time.Second, Tunnel: 10 * time.Minute, Write: 30 * time.Second,
				Dial: 3 * time.Second, ResponseHeader: time.Minute, Drain: 10 * time.Second,
			},
			Limits: Limits{HeaderBytes: 16 << 10, BodyBytes: 1 << 20, BodyRate: 1 << 10, QueryParameters: 1000, Streams: 100, HeldBytes: 128 << 20, JSONBytes: 1 << 20},
		},
		GRPC:  GRPC{MaxBytes: 128 << 20},
		Envoy: Envoy{Remarks: true, Body: "json", Headers: true, LimitHeaders: LimitHeaders{Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset"}},
		Store: Store{
			Memory: Memory{MaxBytes: 1 << 30},
			Redis:  defaultRedis(), RedisPerSecond: defaultRedis(),
		},
		JWT:     JWT{Refresh: time.Hour},
		Rules:   Rules{PollInterval: 5 * time.Second, Charge: "alone", XDS: XDS{NodeID: "default", MaxBytes: 16 << 20}},
		Headers: []string{"ietf"},
		Metrics: Metrics{Compat: "none", NearLimit: 0.8, Cached: true, MaxSeries: 10_000},
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
