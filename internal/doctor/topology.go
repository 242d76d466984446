package doctor

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock/internal/spelling"
)

// findBySentinels asks every sentinel for the master.
func (d *doctor) findBySentinels(ctx context.Context, as identity) []*redisServer {
	c := &d.Config.Store.Redis
	watching := identity{c.SentinelUsername, c.SentinelPassword, as.tls}
	masters := map[string][]string{}
	for _, address := range c.Addresses {
		master, err := d.askSentinel(ctx, address, watching)
		if err != nil {
			d.warn("sentinel", "start it, or remove it from store.redis.addresses", "the sentinel %s does not answer: %v", address, err)
			continue
		}
		masters[master] = append(masters[master], address)
	}
	switch len(masters) {
	case 0:
		d.block("sentinel", "set store.redis.addresses to the sentinels, and store.redis.master to their name for the master", "no sentinel knows the master %q", c.Master)
		return nil
	case 1:
		for master, by := range masters {
			d.ok("sentinel", "%s say that %s is %s", spelling.Count(len(by), "sentinel"), c.Master, master)
		}
	default:
		d.fail("sentinel", "check again after the failover; if they still disagree, a sentinel is partitioned", "sentinels disagree on the address of %s: %v", c.Master, masters)
	}
	return d.connect(ctx, slices.Sorted(maps.Keys(masters)), as)
}

func (d *doctor) askSentinel(ctx context.Context, address string, as identity) (master string, err error) {
	s, err := dialServer(ctx, address, as, d.Timeout)
	if err != nil {
		return "", err
	}
	defer s.close()
	name := d.Config.Store.Redis.Master
	at, err := s.do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name).AsStrSlice()
	switch {
	case rueidis.IsRedisNil(err) || err == nil && len(at) != 2:
		return "", fmt.Errorf("it does not know %q", name)
	case err != nil:
		return "", err
	}
	if err := s.do(ctx, "SENTINEL", "CKQUORUM", name).Error(); err != nil && !mayNot(err) {
		d.warn("sentinel", "start the sentinels that are missing", "%s could not replace a failed master: %v", address, err)
	}
	return net.JoinHostPort(at[0], at[1]), nil
}

const clusterSlots = 16384

// findByCluster asks one server for the others, and checks that every slot has a server.
func (d *doctor) findByCluster(ctx context.Context, as identity) []*redisServer {
	ranges, ok := d.askSlots(ctx, as)
	if !ok {
		return nil
	}
	owned := make([]bool, clusterSlots)
	var masters []string
	for _, part := range ranges {
		for slot := max(0, part.from); slot <= min(part.to, clusterSlots-1); slot++ {
			owned[slot] = true
		}
		if !slices.Contains(masters, part.master) {
			masters = append(masters, part.master)
		}
	}
	if missing := gaps(owned); missing != "" {
		d.fail("slots", "start their master, or run redis-cli --cluster fix",
			"slots %s are not assigned: their keys cannot be decided, nor, by default, any in the cluster", missing)
	} else {
		d.ok("slots", "all %d are served, by %s", clusterSlots, spelling.Count(len(masters), "master"))
	}
	slices.Sort(masters)
	return d.connect(ctx, masters, as)
}

// slotRange is a range of slots and the server that owns it.
type slotRange struct {
	from, to int
	master   string
}

// askSlots asks the configured servers in order until one answers.
func (d *doctor) askSlots(ctx context.Context, as identity) ([]slotRange, bool) {
	addresses := d.Config.Store.Redis.Addresses
	for i, address := range addresses {
		s, err := dialServer(ctx, address, as, d.Timeout)
		if err != nil && i < len(addresses)-1 {
			d.warn("reach", "start it, or remove it from store.redis.addresses", "%s does not answer, trying the next address: %v", address, err)
			continue
		}
		if err != nil {
			d.unreachable(address, as, err)
			return nil, false
		}
		defer s.close()
		if s.mode != "cluster" {
			d.at = address
			d.examineVersion(s)
			d.at = ""
			return nil, false
		}
		ranges, err := readSlots(s.do(ctx, "CLUSTER", "SLOTS"), address)
		if err != nil {
			fix := ""
			if mayNot(err) {
				fix = "ACL SETUSER … +cluster|slots +cluster|shards +role"
			}
			d.block("slots", fix, "%s does not list its slots: %v", address, err)
			return nil, false
		}
		return ranges, true
	}
	return nil, false
}

// readSlots reads [[from, to, [host, port, …], replica…]…].
func readSlots(reply rueidis.RedisResult, asked string) (ranges []slotRange, err error) {
	parts, err := reply.ToArray()
	if err != nil {
		return nil, err
	}
	for i := range parts {
		part, err := parts[i].ToArray()
		if err != nil || len(part) < 3 {
			return nil, errNotTold
		}
		from, errFrom := part[0].AsInt64()
		to, errTo := part[1].AsInt64()
		at, errAt := part[2].ToArray()
		if errFrom != nil || errTo != nil || errAt != nil || len(at) < 2 {
			return nil, errNotTold
		}
		host, _ := at[0].ToString()
		if host == "" || host == "?" { // a server that does not know its own address is at the one we asked
			host, _, _ = net.SplitHostPort(asked)
		}
		port, err := at[1].AsInt64()
		if err != nil {
			return nil, errNotTold
		}
		ranges = append(ranges, slotRange{int(from), int(to), net.JoinHostPort(host, strconv.FormatInt(port, 10))})
	}
	return ranges, nil
}

// gaps formats the first few slots without a server: "5, 100-200".
func gaps(owned []bool) string {
	var all []string
	for from := 0; from < len(owned); from++ {
		if owned[from] {
			continue
		}
		to := from
		for to+1 < len(owned) && !owned[to+1] {
			to++
		}
		if len(all) == 8 {
			all = append(all, "…")
			break
		}
		text := strconv.Itoa(from)
		if to > from {
			text += "-" + strconv.Itoa(to)
		}
		all = append(all, text)
		from = to
	}
	return strings.Join(all, ", ")
}
