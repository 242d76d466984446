// Package hostiledoc has small documents that used to be expensive to read: seconds of CPU, or gigabytes.
// Tests read and compile them and send them to a running server.
package hostiledoc

import (
	"fmt"
	"strings"
)

// Rules are rule documents. Each has about as many bytes as asked for.
var Rules = map[string]func(bytes int) string{
	"words for rules": func(n int) string { return "rules: [" + strings.Repeat("x,", n/2) + "]" },
	"empty rules":     func(n int) string { return "rules: [" + strings.Repeat("{},", n/3) + "]" },
	"lists of lists": func(n int) string {
		return "rules: [" + strings.Repeat("["+strings.Repeat("[],", 1000)+"],", n/3003) + "]"
	},
	"one rule's limits": func(n int) string {
		return "rules: [{name: a, key: [], limits: [" + strings.Repeat("1/s,", n/4) + "]}]"
	},
	"limits": func(n int) string {
		return eachRule(n, func(i int) string {
			text := fmt.Sprintf("{name: r%d, key: [], limits: [", i)
			for k := range 16 {
				text += fmt.Sprintf("%d/%ds,", i+k+1, k+1)
			}
			return text + "]}"
		})
	},
	"the same name": func(n int) string {
		return eachRule(n, func(int) string { return "{name: a, key: [], limits: [1/s]}" })
	},
	"fields twice": func(n int) string { return eachRule(n, func(int) string { return "{name: a, name: a, name: a}" }) },
	"fields": func(n int) string {
		return eachRule(n, func(i int) string { return fmt.Sprintf("{nam%d: a, limit%d: b, enable_progressiv_limits: c}", i, i) })
	},
	"JSON on one line": func(n int) string {
		return `{"rules": [` + strings.Repeat(`{"name":"A","key":[],"limits":["1/x"]},`, n/40) + `{}]}`
	},
	"methods": func(n int) string {
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {method: [%s]}}", i, names("M", min(9000, n/10)))
		})
	},
	"one match's attributes": func(n int) string {
		return "rules: [{name: a, key: [], limits: [1/s], match: {" + numbered(n/10, "a%d: b,") + "}}]"
	},
	"attributes": func(n int) string {
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {%s}}", i, numbered(60, fmt.Sprintf("a%d_%%d: b,", i)))
		})
	},
	"misspelt attributes": func(n int) string {
		declared := "attributes: {" + numbered(250, strings.Repeat("a", 50)+"%d: {header: x},") + "}\n"
		return declared + eachRule(n-len(declared), func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [%sb%d], limits: [1/s]}", i, strings.Repeat("a", 50), i)
		})
	},
	"when on every line": func(n int) string {
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("name: r%d\n  key: []\n  match:\n    when: |\n      ip ==\n      x%d", i, i)
		})
	},
	"values": func(n int) string {
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {ip: [%s]}}", i, numbered(9000, "::%x,"))
		})
	},
	"lists": func(n int) string {
		return "rules: []\nlists: {deny: [" + numbered(min(n/12, 90_000), "{a: '%d'},") + "]}"
	},
	// Many rules with the same long list, and much else in common.
	"rules alike": func(n int) string {
		common := numbered(60, "a%d: b,")
		each := min(9000, n/100)
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {host: [%s], %s}}", i, numbered(each, "h%d,"), common)
		})
	},
	"two long lists": func(n int) string {
		each := min(9000, n/100)
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {host: [%s], user: [%s]}}", i, numbered(each, "h%d,"), numbered(each, "u%d,"))
		})
	},
	"overrides": func(n int) string {
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], overrides: [%s]}", i, strings.Repeat("{match: {}, limits: [2/s]},", 900))
		})
	},
	"overrides that never apply": func(n int) string {
		override := "{match: {user: [" + numbered(64, "x%d,") + "]}, limits: unlimited},"
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {user: [%s]}, overrides: [%s]}", i, numbered(64, "y%d,"), strings.Repeat(override, 100))
		})
	},
	"paths": func(n int) string {
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {path: /%d%s}}", i, i, strings.Repeat("/a", 60))
		})
	},
	"expressions": func(n int) string {
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {when: 'ip==\"%d\"'}}", i, i)
		})
	},
	"long expressions": func(n int) string {
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {when: 'ip in [%s\"a\"]'}}", i, strings.Repeat(fmt.Sprintf(`"%d",`, i), 500))
		})
	},
	"wildcards": func(n int) string {
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {path: '/{w%d}', when: 'w%d==\"a\"'}}", i, i, i)
		})
	},
	"time zones": func(n int) string {
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [{rate: 1/day, algorithm: fixed_window, timezone: Z/%d}]}", i, i)
		})
	},
}

// Envoy are files of envoyproxy/ratelimit.
var Envoy = map[string]func(bytes int) string{
	"words for descriptors": func(n int) string { return "domain: d\ndescriptors: [" + strings.Repeat("x,", n/2) + "]" },
	"descriptors":           func(n int) string { return "domain: d\ndescriptors: [" + numbered(n/12, "{key: k%d},") + "]" },
	"the same descriptor":   func(n int) string { return "domain: d\ndescriptors: [" + strings.Repeat("{key: k},", n/9) + "]" },
	"limits": func(n int) string {
		return "domain: d\ndescriptors: [" + numbered(n/48, "{key: k%d, rate_limit: {unit: day}},") + "]"
	},
	"below a long key": func(n int) string {
		return "domain: d\ndescriptors:\n- key: " + strings.Repeat("k", n/2) + "\n  descriptors: [" + numbered(n/96, "{key: k%d, rate_limit: {unit: day}},") + "]"
	},
	"below a key as long as allowed": func(n int) string {
		return "domain: d\ndescriptors:\n- key: " + strings.Repeat("k", 4000) + "\n  descriptors: [" + numbered(n/48, "{key: k%d, rate_limit: {unit: day}},") + "]"
	},
	"merges": func(n int) string {
		return "domain: d\na: &a {" + numbered(900, "f%d: 1,") + "}\nb: {<<: [" + strings.Repeat("*a,", n/3) + "]}"
	},
	"aliases": func(n int) string {
		return "domain: d\na: &a [" + strings.Repeat("x,", 1000) + "]\nmetadata: [" + strings.Repeat("*a,", n/3) + "]"
	},
	"metadata": func(n int) string {
		return "domain: d\ndescriptors: [{key: k, metadata: {a: [" + strings.Repeat("x,", n/2) + "]}}]"
	},
	"replaces": func(n int) string {
		return "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, replaces: [" + strings.Repeat("{name: a},", n/10) + "]}}]"
	},
}

// eachRule returns a document of n bytes whose rules a function writes.
func eachRule(n int, write func(i int) string) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := 0; b.Len() < n; i++ {
		b.WriteString("- " + write(i) + "\n")
	}
	return b.String()
}

func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// names returns different words of capitals.
func names(prefix string, n int) string {
	letters := strings.NewReplacer("0", "A", "1", "B", "2", "C", "3", "D", "4", "E", "5", "F", "6", "G", "7", "H", "8", "I", "9", "J")
	return letters.Replace(numbered(n, prefix+"%d,"))
}
