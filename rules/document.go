package rules

import (
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/attribute"
)

// A Document is what an operator writes, as values. The zero value of an optional field means that the field is
// not set.
//
// The struct tags are the document's whole grammar, used by [Parse], [Document.YAML], [Document.JSON] and
// [Schema]. rules holds the field's name and whether it is required; as is an example; min and max bound a
// number, or the length of a text or list; doc is the help text that editors show.
type Document struct {
	Attributes map[string]Source `rules:"attributes" max:"256" doc:"Where the attributes of an HTTP request come from, by name. ip, method, host and path always exist."`

	PathMatching PathMatching `rules:"path_matching" doc:"Which spellings of a path are one path for rules that limit, and for the deny list: as the servers behind Penstock read them. loose: all that any of these servers reads as one; it is the default. What loosens limits matches exactly: the allow list, and overrides with higher limits or none."`

	Rules []RuleTerms `rules:"rules,required" as:"rules: []" max:"1000000" doc:"The rules. All that match a request apply, together or not at all."`
	Lists Lists       `rules:"lists" doc:"Requests that are never limited, and requests that are always denied. Lists are checked before rules."`

	found *problemCollector // the parse result it was made from
}

// A Source is where an attribute comes from. Exactly one field is set, beside Default and OnUnreadable.
type Source struct {
	Header string `rules:"header" max:"128" doc:"The value of a request header."`
	Cookie string `rules:"cookie" max:"128" doc:"The value of a cookie."`
	Query  string `rules:"query" max:"128" doc:"The value of a query parameter."`
	Claim  string `rules:"claim" max:"128" doc:"A claim of a verified JWT. a.b is the claim b within a."`

	Certificate attribute.CertificatePart `rules:"certificate" doc:"A field of the client's verified TLS certificate."`

	JSON    string `rules:"json" max:"256" doc:"A field of the request's JSON body: text, number, true or false. a.b is the field b within a. A request that has no JSON body, or whose body lacks the field, has the default."`
	Default string `rules:"default" max:"1024" doc:"The value of json for a request without it; empty if not given."`

	OnUnreadable attribute.OnUnreadable `rules:"on_unreadable" doc:"What happens to a request whose JSON body cannot be read for a rule that enforces its limits: it is not a JSON object, larger than gateway.limits.json_bytes, compressed other than by gzip, has an object or array in the field, or its client or the node has no memory left for it. deny: it is answered 400, 413 or 503; default: it has the default. deny if not given."`
}

// RuleTerms are a rule as written in the document.
type RuleTerms struct {
	Name  string     `rules:"name,required" as:"name: search-per-user" max:"63" doc:"The name of the rule. It is the policy name in headers, metrics and logs: lower-case letters, digits, '.', '_' and '-'."`
	Match MatchTerms `rules:"match" doc:"Which requests the rule is for. All conditions must hold; without conditions the rule is for every request of the default domain."`

	PathMatching PathMatching `rules:"path_matching" doc:"Which spellings of a path are one path for the rule, instead of what the document says."`

	Key    []KeyPart    `rules:"key,required" as:"key: [user], or [] for one counter for all" max:"16" doc:"What clients are told apart by: attributes, and wildcards of the path. [] is one counter for all requests. A request that lacks an attribute of the key does not match; user? counts a missing one as empty. ip/48 counts by that network of an IPv6 address, and by the whole of an IPv4 address."`
	Limits []LimitTerms `rules:"limits" as:"limits: [100/1m]" min:"1" max:"16" doc:"The limits. A request passes if all of them allow it, and is charged to all or to none."`

	RequestsPerMinute       *int64    `rules:"requests_per_minute" min:"0" max:"100000" doc:"Short for a sliding_window_log limit per minute. It cannot be given together with limits."`
	RequestsPerHour         *int64    `rules:"requests_per_hour" min:"0" max:"100000" doc:"Short for a sliding_window_log limit per hour. It cannot be given together with limits."`
	EnableProgressiveLimits bool      `rules:"enable_progressive_limits" doc:"Short for a penalty that bans after each denial. The bans are progressive_ban_durations; 1m, 5m and 1h if these are not given."`
	ProgressiveBanDurations []Seconds `rules:"progressive_ban_durations" min:"1" max:"15" doc:"The bans of enable_progressive_limits, in seconds or as durations. The last one repeats."`

	Cost         *CostTerms      `rules:"cost" doc:"What a request costs: a number, or where it is found. It replaces the cost that the request states; 1 if neither is given. A request with cost 0 is always a peek."`
	ChargeIf     string          `rules:"charge_if" max:"4096" doc:"Charge only requests whose response meets this condition, as in status in [401, 403]. Every request is charged first, and the others get their charge back when their response begins. An expression in CEL over status, duration and header(\"name\"). The charge stays if no response is reported until the reservation ends."`
	RefundIf     string          `rules:"refund_if" max:"4096" doc:"Give the charge back to requests whose response meets this condition, as in status >= 500. The opposite of charge_if."`
	CountDenied  bool            `rules:"count_denied" doc:"Count denied requests too. Only windows can."`
	Dedup        *DedupTerms     `rules:"dedup" doc:"Charge a duplicate of an allowed request once. Requests are duplicates if they have the same id and key. Over HTTP and gRPC the id is the header Idempotency-Key, in the decision API the field id; dedup.attribute takes it from an attribute instead. A request without an id is never a duplicate."`
	Reserve      *ReserveTerms   `rules:"reserve" doc:"Charge an estimate first and correct it later: the actual cost is settled, or everything is released."`
	Overdraft    *OverdraftTerms `rules:"overdraft" doc:"How far below zero a settled cost may drive a balance."`
	Penalty      *PenaltyTerms   `rules:"penalty" doc:"Ban clients that keep exceeding the limits."`
	Consistency  Consistency     `rules:"consistency" doc:"exact asks the store for every request. leased takes quota ahead for busy keys, for fewer round trips: never more than the limit in a fixed window, and within a hundredth of the window for other algorithms. exact if not given."`
	OnStoreError Failure         `rules:"on_store_error" doc:"What decides while the store is unavailable. local: each node enforces the whole limit by itself; {local: divided}: each node enforces its share; allow; deny. local if not given."`
	Mode         Mode            `rules:"mode" doc:"enforce: the rule denies requests. shadow: it decides and reports but never denies. off: it does nothing. enforce if not given."`
	Overrides    []OverrideTerms `rules:"overrides" max:"1000" doc:"Other limits for some requests of the rule. The first override whose match holds replaces the limits. It shares the rule's counters if everything its match reads is part of the key; otherwise it has counters of its own."`
	Owner        string          `rules:"owner" max:"128" doc:"Who to ask about the rule. It has no effect."`
	ExpiresAt    time.Time       `rules:"expires_at,nullable" doc:"When the rule stops applying; null or not given: never."`
}

// MatchTerms are the conditions that a request must meet.
type MatchTerms struct {
	Domain     string   `rules:"domain" max:"255" doc:"The domain of the request; default if not given."`
	Method     Values   `rules:"method" doc:"One or several HTTP methods, in upper case."`
	Path       string   `rules:"path" max:"2048" doc:"A pattern for the normalised path: {id} is one segment, {rest...} is all that follow."`
	Attributes Patterns `rules:"attributes" max:"64" doc:"Values of attributes, one or several each. * stands for any characters; addresses can be networks. {plan: gold} directly in the match is short for attributes: {plan: gold}."`
	When       string   `rules:"when" max:"4096" doc:"An expression in CEL over the attributes and the wildcards of the rule's path. A missing attribute is an empty string."`
	OnError    OnError  `rules:"on_error" doc:"What happens if when cannot be evaluated for a request. match: the rule applies, and an override does if its limits are no looser than the rule's; skip: it does not apply; deny: the request is denied. match if not given."`
}

// Patterns map attributes to patterns. One matching value is enough.
type Patterns map[string]Values

// Values are one or more texts.
type Values []string

// A KeyPart is an attribute that identifies clients.
type KeyPart struct {
	Name     string
	Optional bool // a missing one counts as empty
	Prefix   int  // significant bits of an IPv6 address; 0: the value as it is
}

// LimitTerms are a limit as written in the document. A rate alone is a sliding_window_counter.
type LimitTerms struct {
	Rate       Rate               `rules:"rate" doc:"How many per how long: 100/1m, 10/s, 5000/month. The words hour, day, week, month and year are calendar periods and need fixed_window. 0/1m blocks. The number can come from the client's own record instead, within max: \"{claim: quota}/1h\", \"{header: X-Quota}/1h\", an attribute as in \"{quota}/1h\", or an entitlement as in \"{tenant.requests}/1h\": the row that the entitlements table has for the client's tenant. With several, as in \"{tenant.requests | plan.requests}/1h\", the first that exists counts."`
	Max        int64              `rules:"max" min:"1" max:"1000000000000" doc:"The highest number that data can give the limit; required where the number comes from data. A higher one counts as default."`
	Default    *int64             `rules:"default" min:"0" max:"1000000000000" doc:"The number where data has none, or one that is invalid; required where the number comes from data. 0 blocks."`
	Algorithm  penstock.Algorithm `rules:"algorithm" doc:"How requests are counted; sliding_window_counter if not given."`
	Burst      int64              `rules:"burst" min:"1" max:"1000000000000" doc:"The capacity of a token_bucket; the count of the rate if not given."`
	Refill     penstock.Refill    `rules:"refill" doc:"How a token_bucket is refilled: continuous, token by token, or interval, all at once at every multiple of the window. continuous if not given."`
	Queue      int64              `rules:"queue" min:"0" max:"999999999999" doc:"How many requests can wait in a leaky_bucket; 0 if not given."`
	Timezone   string             `rules:"timezone" max:"64" doc:"The time zone in which calendar periods begin, by its IANA name; UTC if not given."`
	Concurrent int64              `rules:"concurrent" min:"1" max:"100000" doc:"How many requests can run at the same time. It replaces rate and needs ttl."`
	TTL        Duration           `rules:"ttl" doc:"How long a concurrent request holds its permit if it is neither released nor renewed."`
}

// CostTerms say what a request costs: a number, or where to find it.
type CostTerms struct {
	Fixed          int64  `rules:"-"`
	Attribute      string `rules:"attribute" max:"128" doc:"The attribute that holds the cost."`
	ResponseHeader string `rules:"response_header" max:"128" doc:"The response header that holds the cost. The request is charged default until then."`
	ResponseBytes  bool   `rules:"response_bytes" doc:"The cost is the length of the response body in bytes. The request is charged default until then."`
	ResponseJSON   string `rules:"response_json" max:"256" doc:"The field of the response's JSON body, or of its last server-sent event that has it, that holds the cost. a.b is the field b within a. usage.total_tokens, usage.input_tokens and usage.output_tokens are understood as OpenAI and Anthropic report them. The request is charged estimate or default until then."`
	Estimate       string `rules:"estimate" max:"4096" doc:"An expression in CEL over the attributes whose value is the cost, as in int(max_tokens) + 500. Where the response tells the cost, it is the first charge instead of default. If it cannot be evaluated, the cost is default."`
	Cut            bool   `rules:"cut" doc:"Cut a response that has used what was reserved for it and for which the limits allow no more. It needs response_json of tokens."`
	Default        int64  `rules:"default" min:"1" max:"1000000000000" doc:"The cost if it is missing or not a number, and the first charge where the response tells the cost; 1 if not given."`
	Max            int64  `rules:"max" min:"1" max:"1000000000000" doc:"The highest cost. A higher one counts as this."`
}

// DedupTerms say when a request is a duplicate.
type DedupTerms struct {
	TTL          Duration `rules:"ttl,required" as:"ttl: 10s" doc:"How long a request is remembered, from the first with its id on. Duplicates do not extend it."`
	MaxReplays   int64    `rules:"max_replays" min:"1" max:"255" doc:"How many duplicates of one id are not charged; 1 if not given."`
	ReplayBudget Budget   `rules:"replay_budget" doc:"What duplicates of one key may cost without a charge, over all ids: a number, which is a number of requests if each costs 1, or a percentage of the limit, counted as that limit counts. With several limits, it holds that of the smallest at once, and refills by that of the slowest in its window. A duplicate that costs more than is left is charged; a cost that comes with the response counts as its max. 10% if not given."`
	Attribute    string   `rules:"attribute" max:"128" doc:"The attribute that holds the id of a request, instead of Idempotency-Key or the field id."`
}

// ReserveTerms say how an estimate is settled.
type ReserveTerms struct {
	TTL     Duration          `rules:"ttl,required" as:"ttl: 60s" doc:"How long a reservation can be settled or released. An estimate that is not settled by then stays charged."`
	Overage algorithm.Overage `rules:"overage" doc:"What happens to an actual cost above the estimate. deny: the settlement is refused if the limit does not allow it; allow: it is charged up to the limit; debt: up to the overdraft. A cost that comes with the response is never refused: deny counts as debt. deny if not given."`
}

// OverdraftTerms say how far a balance may fall below zero.
type OverdraftTerms struct {
	Max int64 `rules:"max,required" as:"max: 1000" min:"1" max:"1000000000000" doc:"The lowest balance, as a distance below zero."`
}

// PenaltyTerms say when a client is banned.
type PenaltyTerms struct {
	After        int64      `rules:"after,required" as:"after: 5" min:"1" max:"10000" doc:"How many denials lead to a ban."`
	Within       Duration   `rules:"within,required" as:"within: 10m" doc:"How long denials count towards a ban, from the first of them on."`
	Bans         []Duration `rules:"bans,required" as:"bans: [1m, 5m, 1h]" min:"1" max:"15" doc:"The length of the first ban, the second and so on. The last one repeats."`
	ForgiveAfter Duration   `rules:"forgive_after" doc:"How long after the last denial, or the end of the ban, everything is forgotten; 24h if not given."`
	StrikeIf     string     `rules:"strike_if" max:"4096" doc:"Count an allowed request as a denial if its response meets this condition, as in status == 401. An expression as in charge_if. Denied requests count in any case."`
}

// OverrideTerms replace a rule's limits for some requests.
type OverrideTerms struct {
	Match     MatchTerms     `rules:"match,required" as:"match: {plan: gold}" doc:"Which of the rule's requests the override is for. It names the override's own counters: changing it starts with empty counters, moving the override does not."`
	Limits    OverrideLimits `rules:"limits,required" as:"limits: [1000/1m], or limits: unlimited" doc:"The limits that replace the rule's, or unlimited."`
	ExpiresAt time.Time      `rules:"expires_at,nullable" doc:"When the override stops applying; null or not given: never. Counters that it shares with the rule keep what was used."`
}

// OverrideLimits are limits, or none at all.
type OverrideLimits struct {
	Unlimited bool
	Limits    []LimitTerms
}

// Lists are checked before all rules. The deny list takes precedence over the allow list.
type Lists struct {
	Allow []Patterns `rules:"allow" max:"100000" doc:"Requests that are never limited. Every condition of an entry must hold."`
	Deny  []Patterns `rules:"deny" max:"100000" doc:"Requests that are always denied, before any counter. The deny list wins over the allow list."`
}

// Mode says whether a rule's decisions are enforced.
type Mode uint8

const (
	Enforce Mode = iota
	Shadow       // decide and report, never deny
	Off
)

// OnError says what happens to a request for which a match's expression cannot be evaluated.
type OnError uint8

const (
	ErrorMatches OnError = iota // the rule applies; an override does if it cannot loosen the limits
	ErrorSkips
	ErrorDenies
)

// PathMatching says which spellings of a path are one path.
type PathMatching uint8

const (
	PathsUnset PathMatching = iota // as the document says, which is LoosePaths if it says nothing
	LoosePaths                     // all differences that servers ignore
	ExactPaths
	ExpressPaths // as these servers do by default
	RailsPaths
	SpringPaths
	NginxPaths
	GoPaths // net/http.ServeMux
)

// Consistency says how often a node asks the store.
type Consistency uint8

const (
	Exact  Consistency = iota // for every request
	Leased                    // quota is leased ahead
)

// Failure says what decides while the store does not answer.
type Failure uint8

const (
	FailLocal   Failure = iota // each node enforces the full limit by itself
	FailDivided                // each node enforces its share
	FailAllow
	FailDeny
)

// builtin lists the attributes that need no source.
var builtin = []string{"ip", "method", "host", "path"}

const day = 24 * time.Hour
