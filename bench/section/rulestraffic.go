package section

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/penstock-io/penstock"
)

// kinds is the number of forms in which rules are written here. A request can match one rule of each.
const kinds = 5

// resources is how many rules of the third kind a tenant has.
const resources = 100

// rulesText returns that many rules, the kinds in turn.
func rulesText(size int) []byte {
	var b strings.Builder
	b.WriteString("attributes:\n  user: {header: X-User}\n  tenant: {header: X-Tenant}\n  resource: {header: X-Resource}\nrules:\n")
	for i := range size {
		n := i / kinds
		var match, key string
		switch i % kinds {
		case 0:
			match, key = fmt.Sprintf("attributes: {user: user-%d}", n), "user"
		case 1:
			match, key = fmt.Sprintf("method: [GET, POST], path: '/v1/things-%d/{rest...}'", n), "ip"
		case 2:
			match, key = fmt.Sprintf("attributes: {tenant: tenant-%d, resource: resource-%d}", n/resources, n%resources), "tenant"
		case 3:
			match, key = fmt.Sprintf("attributes: {ip: %s0/24}", network(n)), "ip"
		case 4:
			match, key = fmt.Sprintf("attributes: {host: '*.%d.example.com'}", n), "host"
		}
		fmt.Fprintf(&b, "  - {name: rule-%d, match: {%s}, key: [%s], limits: [%d/1m]}\n", i, match, key, 100+i%50)
	}
	return []byte(b.String())
}

// network returns the first three parts of an address.
func network(n int) string { return fmt.Sprintf("10.%d.%d.", n>>8&255, n&255) }

// callsOf returns requests that each match hits rules: one of each kind, one of any kind, or none.
func callsOf(size, hits, calls int) []penstock.Call {
	random := rand.New(rand.NewPCG(1, 2))
	all := make([]penstock.Call, calls)
	for i := range all {
		only := random.IntN(kinds)
		// n returns which rule of a kind the request matches; beyond the last means none.
		n := func(kind int) int {
			if hits == kinds || hits == 1 && kind == only {
				return random.IntN(size / kinds)
			}
			return size/kinds + random.IntN(size/kinds)
		}
		tenant := n(2)
		if tenant >= size/kinds {
			tenant += resources // the last tenant may have fewer rules
		}
		all[i] = penstock.Call{Cost: 1, Attributes: []penstock.Attribute{
			{Name: "method", Value: "GET"},
			{Name: "path", Value: fmt.Sprintf("/v1/things-%d/items/%d", n(1), i)},
			{Name: "host", Value: fmt.Sprintf("api.%d.example.com", n(4))},
			{Name: "ip", Value: network(n(3)) + fmt.Sprint(i%256)},
			{Name: "user", Value: fmt.Sprintf("user-%d", n(0))},
			{Name: "tenant", Value: fmt.Sprintf("tenant-%d", tenant/resources)},
			{Name: "resource", Value: fmt.Sprintf("resource-%d", tenant%resources)},
			{Name: "agent", Value: "a browser"},
		}}
	}
	return all
}
