package plan

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/penstock-io/penstock"
)

// An Input describes the traffic.
type Input struct {
	DailyUsers      float64     `json:"daily_users"`
	MonthlyUsers    float64     `json:"monthly_users"`
	RequestsPerUser float64     `json:"requests_per_user"` // per day
	RequestBytes    float64     `json:"request_bytes"`     // request and response together
	Peak            float64     `json:"peak"`              // the busiest second, as a multiple of the average
	Rules           []RuleInput `json:"rules"`

	Denied    float64 `json:"denied"`     // share of requests that limits deny and the deny cache answers
	Leased    float64 `json:"leased"`     // share of the others that leases answer
	LeaseSize float64 `json:"lease_size"` // requests that one lease serves

	CPU         float64 `json:"target_cpu"`   // share of a core that may be busy at the peak
	Cores       float64 `json:"node_cores"`   // of a gateway node
	ShardMemory float64 `json:"shard_memory"` // memory of one Redis server, in bytes
	Replicas    float64 `json:"replicas"`     // of each Redis server

	PriceMemory  float64 `json:"price_gb_month"`
	PriceCore    float64 `json:"price_core_month"`
	PriceNetwork float64 `json:"price_gb_transferred"`
}

// A RuleInput describes rules of one kind: request types that are limited in the same way.
type RuleInput struct {
	Name      string             `json:"name"`
	Count     float64            `json:"count"` // number of such rules
	Share     float64            `json:"share"` // of all requests, that one of them applies to
	Keys      float64            `json:"keys"`  // of one of them, in a day
	Algorithm penstock.Algorithm `json:"algorithm"`
	Window    time.Duration      `json:"window_ns"`
	Limit     float64            `json:"limit"`
}

// A Plan is what the input needs.
type Plan struct {
	Input Input `json:"input"`
	Costs Costs `json:"costs"`

	RequestsPerDay float64 `json:"requests_per_day"`
	Average        float64 `json:"requests_per_second"`
	AtPeak         float64 `json:"requests_per_second_at_peak"`
	BytesPerDay    float64 `json:"bytes_per_day"`
	Bandwidth      float64 `json:"bytes_per_second"`
	PeakBandwidth  float64 `json:"bytes_per_second_at_peak"`

	Rules       []RulePlan `json:"rules"`
	AllCounters float64    `json:"counters_if_all_live"` // every key of a day under every rule
	Live        float64    `json:"live_counters"`
	Memory      Bytes      `json:"memory"` // of the live counters
	AllMemory   Bytes      `json:"memory_if_all_live"`

	Decisions     float64 `json:"decisions_per_second_at_peak"` // one for each limit of a request
	StoreAsks     float64 `json:"store_decisions_per_second_at_peak"`
	Saved         float64 `json:"share_saved_by_deny_cache_and_leases"`
	StoreTraffic  float64 `json:"store_bytes_per_second_at_peak"`
	RedisCores    float64 `json:"redis_cores_at_peak"`
	ShardsByCPU   float64 `json:"shards_by_cpu"`
	ShardsByBytes float64 `json:"shards_by_memory"`
	Shards        float64 `json:"shards"`
	RedisServers  float64 `json:"redis_servers"` // including replicas
	RedisMemory   float64 `json:"redis_memory_bytes"`
	Gateways      float64 `json:"gateway_nodes"`
	GatewayCores  float64 `json:"gateway_cores_at_peak"`
	Checkers      float64 `json:"decision_api_nodes"` // instead of gateways

	Price float64 `json:"price_month"`
}

// Bytes are the size of the same counters in process and in Redis.
type Bytes struct {
	InProcess float64 `json:"in_process_bytes"`
	Redis     float64 `json:"redis_bytes"` // without replicas
}

// A RulePlan is what the rules of one kind need together.
type RulePlan struct {
	RuleInput
	All     float64 `json:"counters_if_all_live"`
	Live    float64 `json:"live_counters"`
	Entries float64 `json:"log_entries_per_counter"`
	Memory  Bytes   `json:"memory"`
}

// maxFill is the share of a server's memory to use. penstock doctor warns above it.
const maxFill = 0.8

const day = 24 * time.Hour

// Validate reports every error at once.
func (in *Input) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	positive := func(v float64) bool { return v > 0 && v < 1e18 }
	check(positive(in.DailyUsers), "%v daily users; there must be some", in.DailyUsers)
	check(in.MonthlyUsers == 0 || in.MonthlyUsers >= in.DailyUsers, "%v monthly users are fewer than %v daily ones", in.MonthlyUsers, in.DailyUsers)
	check(positive(in.RequestsPerUser), "%v requests per user; there must be some", in.RequestsPerUser)
	check(in.RequestBytes >= 0, "%v bytes per request", in.RequestBytes)
	check(in.Peak >= 1 && in.Peak < 1e6, "a peak of %v times the average; it is at least 1", in.Peak)
	check(in.Denied >= 0 && in.Denied <= 1, "denied share %v is not from 0 to 1", in.Denied)
	check(in.Leased >= 0 && in.Leased <= 1, "leased share %v is not from 0 to 1", in.Leased)
	check(in.LeaseSize >= 1, "a lease serves %v requests; it serves at least 1", in.LeaseSize)
	check(in.CPU > 0 && in.CPU <= 1, "target CPU %v is not above 0 and at most 1", in.CPU)
	check(in.Cores > 0, "nodes with %v cores", in.Cores)
	check(in.ShardMemory > 1e6, "a Redis server with %v bytes of memory; give at least 1 MB", in.ShardMemory)
	check(in.Replicas >= 0 && in.Replicas == math.Trunc(in.Replicas), "%v replicas", in.Replicas)
	check(len(in.Rules) > 0, "no rules")
	for _, r := range in.Rules {
		check(r.Count > 0 && r.Window > 0 && r.Limit > 0 && r.Share >= 0 && r.Keys >= 0, "rule %s: count, window and limit must be above 0", r.Name)
	}
	return errors.Join(errs...)
}

// Make makes a plan.
func Make(in Input, costs Costs) (*Plan, error) {
	if err := in.Validate(); err != nil {
		return nil, err
	}
	p := &Plan{Input: in, Costs: costs}
	p.RequestsPerDay = in.DailyUsers * in.RequestsPerUser
	p.Average = p.RequestsPerDay / day.Seconds()
	p.AtPeak = p.Average * in.Peak
	p.BytesPerDay = p.RequestsPerDay * in.RequestBytes
	p.Bandwidth = p.BytesPerDay / day.Seconds()
	p.PeakBandwidth = p.Bandwidth * in.Peak
	for _, r := range in.Rules {
		p.addRule(r)
	}
	p.size()
	return p, nil
}

// addRule adds the counters of a kind of rules. A counter lives as long as earlier requests matter. So there are
// at most as many counters as keys, and as requests in that time at the peak.
func (p *Plan) addRule(r RuleInput) {
	rate := p.AtPeak * r.Share // of each of these rules
	arriving := rate * r.Window.Seconds() * lifetimeInWindows(r.Algorithm)
	if r.Window >= day {
		arriving = rate / p.Input.Peak * r.Window.Seconds() * lifetimeInWindows(r.Algorithm) // a peak does not last a day
	}
	live := min(r.Keys, arriving)
	rule := RulePlan{RuleInput: r, All: r.Count * r.Keys, Live: r.Count * live}
	if live > 0 {
		rule.Entries = min(r.Limit, max(1, rate*r.Window.Seconds()/live))
	}
	rule.Memory = p.Costs.bytes(&rule, rule.Live)
	all := p.Costs.bytes(&rule, rule.All)
	p.Rules = append(p.Rules, rule)
	p.AllCounters += rule.All
	p.Live += rule.Live
	p.Memory.InProcess += rule.Memory.InProcess
	p.Memory.Redis += rule.Memory.Redis
	p.AllMemory.InProcess += all.InProcess
	p.AllMemory.Redis += all.Redis
	p.Decisions += r.Count * rate
}

func (c *Costs) bytes(r *RulePlan, counters float64) Bytes {
	return Bytes{counters * c.Memory.counter(r.Algorithm, r.Entries), counters * c.Redis.counter(r.Algorithm, r.Entries)}
}

// size computes the number of servers and nodes.
func (p *Plan) size() {
	in, c := &p.Input, &p.Costs
	p.Saved = 1 - (1-in.Denied)*(1-in.Leased*(1-1/in.LeaseSize))
	p.StoreAsks = p.Decisions * (1 - p.Saved)
	p.StoreTraffic = p.StoreAsks * c.Redis.Wire
	p.RedisCores = p.StoreAsks * c.Redis.Decision.Seconds()
	p.ShardsByCPU = math.Ceil(p.RedisCores / in.CPU)
	p.ShardsByBytes = math.Ceil(p.Memory.Redis / (in.ShardMemory * maxFill))
	p.Shards = max(1, p.ShardsByCPU, p.ShardsByBytes)
	p.RedisServers = p.Shards * (1 + in.Replicas)
	p.RedisMemory = p.Memory.Redis * (1 + in.Replicas)
	perRequest := in.Denied*c.GatewayDenied.Seconds() + (1-in.Denied)*c.Gateway.Seconds()
	p.GatewayCores = p.AtPeak * perRequest
	p.Gateways = max(1, math.Ceil(p.GatewayCores/(in.Cores*in.CPU)))
	p.Checkers = max(1, math.Ceil(p.AtPeak*c.Check.Seconds()/(in.Cores*in.CPU)))
	p.Price = p.RedisMemory/1e9*in.PriceMemory + (p.RedisServers+p.Gateways*in.Cores)*in.PriceCore + p.BytesPerDay*30/1e9*in.PriceNetwork
}
