package rules

import (
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/attribute"
)

// A Document is what an operator writes, as values. The zero value of a field that need not be
// given means that it was not.
//
// The tags are the document's whole grammar: [Parse], [Document.YAML], [Document.JSON] and
// [Schema] go by them. rules has the field's name, and says if it must be given; as is an example;
// min and max bound a number, or the length of a text or list; doc is what editors show.
type Document struct {
	Attributes map[string]Source `rules:"attributes" max:"256" doc:"How an HTTP request becomes attributes. ip, method, host and path are always there."`

	PathMatching PathTerms `rules:"path_matching" doc:"Which differences between paths rules and lists ignore. Set what the servers behind Penstock ignore."`

	Rules []RuleTerms `rules:"rules,required" as:"rules: []" max:"200000" doc:"All that match a call apply."`
	Lists Lists       `rules:"lists" doc:"Who is never limited, and who is always refused."`

	found *found // of what it was parsed from
}

// A Source is where an attribute comes from: one of these.
type Source struct {
	Header string `rules:"header" max:"128" doc:"The value of a request header."`
	Cookie string `rules:"cookie" max:"128" doc:"The value of a cookie."`
	Query  string `rules:"query" max:"128" doc:"The value of a query parameter."`
	Claim  string `rules:"claim" max:"128" doc:"A claim of a verified JWT; a.b is b within a."`

	Certificate attribute.CertificatePart `rules:"certificate" doc:"Of the client's verified TLS certificate."`
}

// RuleTerms are a rule as it is written.
type RuleTerms struct {
	Name  string     `rules:"name,required" as:"name: search-per-user" max:"63" doc:"The policy's name in headers, metrics and logs."`
	Match MatchTerms `rules:"match" doc:"What a call must be like. All must hold; nothing given means every call."`

	PathMatching PathTerms `rules:"path_matching" doc:"Which differences between paths the rule ignores, in match, overrides, when and key; what is not given is as the document says."`

	Key    []KeyPart    `rules:"key,required" as:"key: [user], or [] for one counter for all" max:"16" doc:"The attributes, and wildcards of the path, that callers are told apart by. [] is one counter for all; user? treats a missing one as empty; ip/48 counts by that network of an IPv6 address, and by a whole IPv4 address."`
	Limits []LimitTerms `rules:"limits" as:"limits: [100/1m]" min:"1" max:"16" doc:"All of them, together or not at all."`

	RequestsPerMinute       *int64    `rules:"requests_per_minute" min:"0" max:"100000" doc:"Short for a sliding_window_log limit."`
	RequestsPerHour         *int64    `rules:"requests_per_hour" min:"0" max:"100000" doc:"Short for a sliding_window_log limit."`
	EnableProgressiveLimits bool      `rules:"enable_progressive_limits" doc:"Short for a penalty: a ban after each denial."`
	ProgressiveBanDurations []Seconds `rules:"progressive_ban_durations" min:"1" max:"15" doc:"The bans of that penalty, in seconds or as durations."`

	Cost         *CostTerms      `rules:"cost" doc:"What a call costs, instead of what it says itself."`
	CountDenied  bool            `rules:"count_denied" doc:"Record denied calls too (windows only)."`
	Dedup        *DedupTerms     `rules:"dedup" doc:"Charge a repeated call once."`
	Reserve      *ReserveTerms   `rules:"reserve" doc:"Take an estimate that is settled later."`
	Overdraft    *OverdraftTerms `rules:"overdraft" doc:"How far charges that must be recorded may drive the balance below zero."`
	Penalty      *PenaltyTerms   `rules:"penalty" doc:"Ban callers that keep running into the limits."`
	Consistency  Consistency     `rules:"consistency" doc:"exact, or leased: permits fetched ahead for hot keys, never over the limit."`
	OnStoreError Failure         `rules:"on_store_error" doc:"What is decided while the store does not answer."`
	Mode         Mode            `rules:"mode" doc:"enforce; shadow decides and reports but never denies; off."`
	Overrides    []OverrideTerms `rules:"overrides" max:"1000" doc:"The first whose match holds replaces the limits. It shares the rule's counters if everything its match reads is part of the key; otherwise it has counters of its own."`
	Owner        string          `rules:"owner" max:"128" doc:"Who to ask about the rule."`
	ExpiresAt    time.Time       `rules:"expires_at,nullable" doc:"When the rule ceases to apply."`
}

// MatchTerms are what a call must be like.
type MatchTerms struct {
	Domain     string   `rules:"domain" max:"255" doc:"The domain of the call; default if not given."`
	Method     Values   `rules:"method" doc:"One or several HTTP methods."`
	Path       string   `rules:"path" max:"2048" doc:"The normalised path: /users/{id}, /search/{rest...}."`
	Attributes Patterns `rules:"attributes" max:"64" doc:"Values of attributes: one or several each, with * wildcards; networks for addresses."`
	When       string   `rules:"when" max:"4096" doc:"An expression in CEL over the attributes and the wildcards of the rule's path."`
	OnError    OnError  `rules:"on_error" doc:"What happens to a request for which when cannot be evaluated. match: the rule applies, and an override does if its limits are no looser than the rule's; skip: it does not apply; deny: the request is denied."`
}

// PathTerms say which differences between paths are ignored. What is not given is not, or as the
// document says.
type PathTerms struct {
	IgnoreCase             *bool `rules:"ignore_case" doc:"/Login is /login."`
	IgnoreTrailingSlash    *bool `rules:"ignore_trailing_slash" doc:"/login/ is /login."`
	IgnoreMatrixParameters *bool `rules:"ignore_matrix_parameters" doc:"/login;x=1 is /login."`
}

// Patterns are what attributes must be like; any of the values will do.
type Patterns map[string]Values

// Values are one or several texts.
type Values []string

// A KeyPart is an attribute that callers are told apart by.
type KeyPart struct {
	Name     string
	Optional bool // a missing one counts as empty
	Prefix   int  // bits of an IPv6 address that count; 0: the value as it is
}

// LimitTerms are a limit as it is written: a rate alone is a sliding_window_counter.
type LimitTerms struct {
	Rate       Rate               `rules:"rate" doc:"How much per how long: 100/1m, 10/s, 5000/month."`
	Algorithm  penstock.Algorithm `rules:"algorithm" doc:"sliding_window_counter if not given."`
	Burst      int64              `rules:"burst" min:"1" max:"1000000000000" doc:"A token_bucket's capacity; the rate's count if not given."`
	Refill     penstock.Refill    `rules:"refill" doc:"How a token_bucket gets its tokens back."`
	Queue      int64              `rules:"queue" min:"0" max:"999999999999" doc:"How many may wait in a leaky_bucket."`
	Timezone   string             `rules:"timezone" max:"64" doc:"Of a calendar period: Europe/Berlin; UTC if not given."`
	Concurrent int64              `rules:"concurrent" min:"1" max:"100000" doc:"How many at the same time."`
	TTL        Duration           `rules:"ttl" doc:"After which a concurrent call that was not released counts as over."`
}

// CostTerms say what a call costs: a number, or where it is found.
type CostTerms struct {
	Fixed          int64  `rules:"-"`
	Attribute      string `rules:"attribute" max:"128" doc:"The attribute that holds it."`
	ResponseHeader string `rules:"response_header" max:"128" doc:"The response header that holds it."`
	ResponseBytes  bool   `rules:"response_bytes" doc:"The length of the response's body; default where nobody can count it."`
	Default        int64  `rules:"default" min:"1" max:"1000000000000" doc:"Where it is missing or no number; 1 if not given."`
	Max            int64  `rules:"max" min:"1" max:"1000000000000" doc:"What exceeds it counts as this much."`
}

// DedupTerms say when a call is a repeat.
type DedupTerms struct {
	TTL          Duration `rules:"ttl,required" as:"ttl: 10s" doc:"How long a call is remembered, from the first on."`
	MaxReplays   int64    `rules:"max_replays" min:"1" max:"255" doc:"Repeats of one id; 1 if not given."`
	ReplayBudget Budget   `rules:"replay_budget" doc:"Duplicates of one client, beside the smallest limit and counted as it counts: a number or a percentage of that limit; 10% if not given."`
	Attribute    string   `rules:"attribute" max:"128" doc:"The attribute that holds the call's id."`
}

// ReserveTerms say how an estimate is settled.
type ReserveTerms struct {
	TTL     Duration          `rules:"ttl,required" as:"ttl: 60s" doc:"How long it can be settled or released; an unsettled one stays charged."`
	Overage algorithm.Overage `rules:"overage" doc:"What becomes of a true cost above the estimate."`
}

// OverdraftTerms say how far a balance may fall below zero.
type OverdraftTerms struct {
	Max int64 `rules:"max,required" as:"max: 1000" min:"1" max:"1000000000000" doc:"At most so far below zero."`
}

// PenaltyTerms say when a caller is banned.
type PenaltyTerms struct {
	After        int64      `rules:"after,required" as:"after: 5" min:"1" max:"10000" doc:"Denials that make a ban."`
	Within       Duration   `rules:"within,required" as:"within: 10m" doc:"Counted from the first of them."`
	Bans         []Duration `rules:"bans,required" as:"bans: [1m, 5m, 1h]" min:"1" max:"15" doc:"The first, the second, …; the last one again for all that follow."`
	ForgiveAfter Duration   `rules:"forgive_after" doc:"All is forgotten so long after the last denial or the ban's end; 24h if not given."`
}

// OverrideTerms replace a rule's limits for some calls.
type OverrideTerms struct {
	Match     MatchTerms     `rules:"match,required" as:"match: {plan: gold}" doc:"Of the calls that the rule matches, those like this. Counters of the override's own are named by it: changing it starts fresh, moving the override does not."`
	Limits    OverrideLimits `rules:"limits,required" as:"limits: [1000/1m], or limits: unlimited" doc:"What holds instead: limits, or unlimited."`
	ExpiresAt time.Time      `rules:"expires_at,nullable" doc:"When the override ceases to apply. Counters that it shares with the rule keep what was consumed."`
}

// OverrideLimits are limits, or none at all.
type OverrideLimits struct {
	Unlimited bool
	Limits    []LimitTerms
}

// Lists go before all rules. The deny list beats the allow list.
type Lists struct {
	Allow []Patterns `rules:"allow" max:"100000" doc:"Never limited."`
	Deny  []Patterns `rules:"deny" max:"100000" doc:"Always refused, before any counter."`
}

// Mode says whether a rule's decisions count.
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

// Consistency says how often the store is asked.
type Consistency uint8

const (
	Exact  Consistency = iota // for every call
	Leased                    // permits are fetched ahead
)

// Failure says what is decided while the store does not answer.
type Failure uint8

const (
	FailLocal   Failure = iota // each node enforces the full limit by itself
	FailDivided                // each node enforces its share
	FailAllow
	FailDeny
)

// builtin attributes need no source.
var builtin = []string{"ip", "method", "host", "path"}

const day = 24 * time.Hour
