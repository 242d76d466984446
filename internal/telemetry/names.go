package telemetry

import "github.com/prometheus/client_golang/prometheus"

// All metric names. docs/reference/metrics.md is generated from them.
var (
	decisions       = describe("decisions_total", "Decided requests, by result, reason and quality.", "result", "reason", "quality")
	ruled           = describe("rule_decisions_total", "Requests decided under each rule. For a rule in shadow mode, what it would have decided.", "rule", "result", "quality")
	shadowed        = describe("shadow_denied_total", "Requests that a rule in shadow mode would have denied.")
	invalid         = describe("invalid_calls_total", "Requests that could not be decided because they are invalid.")
	refusedInput    = describe("invalid_requests_total", "Requests from Envoy that were refused because they are invalid, as a whole or some of their descriptors, by service.", "service")
	ruleFailures    = describe("rule_failures_total", "Times that a rule, or an override of it, could not be evaluated for a request. on_error decides such requests.", "rule")
	numberFallbacks = describe("limit_number_fallbacks_total", "Times that a limit had its default number because data had no valid one: missing (no entitlement, claim or header), not_a_number, above_max, not_possible.", "rule", "reason")
	leftOut         = describe("rules_left_out_total", "Times that a rule was skipped because too many rules applied to one request.")

	storeUp      = describe("store_up", "1 while the shared store decides requests, 0 while it is unavailable.")
	storeRefused = describe("store_calls_refused_total", "Requests that were not sent to the store because the circuit breaker was open.")
	storeOpened  = describe("store_failures_total", "Times that the circuit breaker opened.")
	storeLosses  = describe("store_data_losses_total", "Times that the shared store had lost data that it had confirmed, as after FLUSHALL or a failover: counters, bans and reservations.")
	scriptsSent  = describe("store_scripts_sent_total", "Script runs that had to be sent again with the text of the script.")
	unconfirmed  = describe("unconfirmed_conclusions", "Releases and settlements that the store did not confirm and that are being sent again.")
	cancelled    = describe("cancelled_requests_total", "Requests whose client disconnected, or cancelled them, before they were decided. They count in no other metric of decisions.")
	unconcluded  = describe("conclusions_dropped_total", "Releases and settlements given up: too many were unconfirmed, or the store did not answer before the reservation expired or the node stopped.")
	roundTrips   = describe("store_round_trips_total", "Round trips to Redis for decisions.")

	memoryKeys    = describe("memory_keys", "Keys in this node's memory.")
	memoryBytes   = describe("memory_bytes", "Bytes of memory that this node's counters use.")
	memoryShared  = describe("memory_shared_counters", "Counters that several keys share because this node's memory is full.")
	memoryEvicted = describe("memory_evicted_total", "Idempotency keys, closed reservations and refundable requests that were forgotten early to make room.")
	memoryRefused = describe("memory_refused_total", "Permits and reservations refused because memory was full.")

	bodyWarnings = describe("body_warnings_total", "Bodies of requests and responses that cannot be read for rules, by reason: the request was denied, or the default applied.", "reason")

	heldRequests = describe("held_requests", "Requests queued at the gateway by leaky buckets.")
	heldBytes    = describe("held_bytes", "Bytes that queued requests use, as counted for gateway.limits.held_bytes.")
	heldRefused  = describe("held_refused_total", "Requests answered with 503 because the queue was full, by the rule that delayed them.", "rule")

	lateWaiting = describe("late_charges_waiting", "Keys whose requests were admitted while the store was unavailable and are still to be charged.")
	lateCharged = describe("late_charges_total", "Counters that were charged after the store was unavailable.")
	lateDropped = describe("late_charges_dropped_total", "Charges given up: too many were waiting, or the store refused them.")

	denyHits     = describe("deny_cache_hits_total", "Requests denied from the deny cache, without asking the store.")
	denyEntries  = describe("deny_cache_entries", "Keys in the deny cache.")
	leasedCalls  = describe("lease_decisions_total", "Charges of rules with consistency: leased, by whether leased quota covered them.", "by")
	leasePermits = describe("lease_permits_total", "Quota leased ahead from the shared limits.")
	leaseExpired = describe("lease_permits_expired_total", "Leased quota that expired unused.")

	nodes            = describe("nodes", "Nodes that share the limits, as far as this one knows.")
	rulesCount       = describe("rules", "Rules in force.")
	rulesVersion     = describe("rules_version", "Version of the rules in force.")
	rulesAge         = describe("rules_checked_timestamp_seconds", "When the origin of the rules last answered.")
	rulesRefused     = describe("rules_refused", "1 if newer rules do not compile and the old ones stay in use.")
	rulesRefusals    = describe("rules_refusals_total", "Texts of rules that were refused because they do not compile.")
	blocksInForce    = describe("blocks", "Keys that operators have blocked, as this node enforces them now.")
	entitlements     = describe("entitlements", "Entitlements that this node has in memory.")
	entitlementsRead = describe("entitlements_checked_timestamp_seconds", "When the database of the entitlements last answered. It is absent if it never did, and limits that need entitlements have their defaults.")
	loginsRefused    = describe("admin_logins_refused_total", "Refused logins at the admin API, by reason.", "reason")
	tlsNotAfter      = describe("tls_certificate_expiry_timestamp_seconds", "When the certificate that a listener uses expires.", "listener")
	tlsReloads       = describe("tls_reloads_total", "Times that a listener reloaded changed TLS files.", "listener")
	tlsRefusals      = describe("tls_refusals_total", "Times that changed TLS files could not be used, and the old certificate stayed in use.", "listener")
	ready            = describe("ready", "1 if this node is ready.")
	buildInfo        = describe("build_info", "1, with the version of this binary.", "version", "goversion")
)

// Names of the timed metrics and of store errors. The alerts in deploy/prometheus use their buckets.
const (
	namespace     = "penstock"
	decisionTimes = "decision_duration_seconds"
	storeTimes    = "store_duration_seconds"
	storeErrors   = "store_errors_total"
)

// edges of buckets, in seconds. 2 ms is the goal of a decision, 10 and 50 ms are the timeouts of a store that does
// not answer.
var edges = []float64{.0001, .00025, .0005, .001, .002, .005, .010, .025, .050, .1, .25, 1}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}
