package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock-io/penstock/internal/spelling"
)

// A replica that lags this far behind would lose as much in a failover.
const (
	muchLagBytes   = 1 << 20
	muchLagSeconds = 10
)

func (d *doctor) examineReplicas(ctx context.Context, s *redisServer) {
	mode := d.Config.Store.Redis.Mode
	offset, replicas, err := s.lag(ctx)
	switch {
	case err != nil:
		d.unknown("replicas", "as another user: redis-cli INFO replication", "the Redis user may not list replicas")
		return
	case len(replicas) == 0 && mode == "single":
		d.ok("replicas", "none; while the server is unavailable, on_store_error decides")
		return
	case len(replicas) == 0:
		d.warn("replicas", "add a replica for every master", "none: nothing takes over when this server fails")
		return
	}
	late := ""
	for _, replica := range replicas {
		if behind := offset - replica.offset; behind >= muchLagBytes {
			late = fmt.Sprintf("%s is %d bytes behind", replica.address, behind)
		} else if replica.seconds >= muchLagSeconds {
			late = fmt.Sprintf("%s was last heard of %d s ago", replica.address, replica.seconds)
		}
	}
	if late != "" {
		d.warn("replicas", "check the replica's load and the network to it", "%s: a failover now would admit again what was admitted since", late)
		return
	}
	d.ok("replicas", "%s, up to date", spelling.Count(len(replicas), "replica"))
}

type replica struct {
	address string
	offset  int64
	seconds int64 // since it last reported; 0 if unknown
}

// lag returns the replication offset of the server and of each of its replicas. It uses ROLE, or INFO, which also
// says how old the offsets are.
func (s *redisServer) lag(ctx context.Context) (offset int64, replicas []replica, err error) {
	if about, err := s.info(ctx, "replication"); err == nil {
		return readReplication(about)
	}
	reply, err := s.do(ctx, "ROLE").ToArray()
	if err != nil {
		return 0, nil, err
	}
	if len(reply) != 3 {
		return 0, nil, errNotTold
	}
	offset, err = reply[1].AsInt64()
	list, listErr := reply[2].ToArray()
	if err != nil || listErr != nil {
		return 0, nil, errNotTold
	}
	for i := range list {
		words, err := list[i].AsStrSlice()
		if err != nil || len(words) != 3 {
			return 0, nil, errNotTold
		}
		at, _ := strconv.ParseInt(words[2], 10, 64)
		replicas = append(replicas, replica{address: words[0] + ":" + words[1], offset: at})
	}
	return offset, replicas, nil
}

// readReplication reads lines like slave0:ip=…,port=…,state=online,offset=…,lag=….
func readReplication(about map[string]string) (offset int64, replicas []replica, err error) {
	offset, err = strconv.ParseInt(about["master_repl_offset"], 10, 64)
	for i := 0; err == nil; i++ {
		line, ok := about["slave"+strconv.Itoa(i)]
		if !ok {
			return offset, replicas, nil
		}
		values := map[string]string{}
		for pair := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(pair, "=")
			values[name] = value
		}
		at, _ := strconv.ParseInt(values["offset"], 10, 64)
		seconds, _ := strconv.ParseInt(values["lag"], 10, 64)
		replicas = append(replicas, replica{values["ip"] + ":" + values["port"], at, seconds})
	}
	return 0, nil, errNotTold
}
