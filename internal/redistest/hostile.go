package redistest

import "strings"

// HostileReplies are replies by which a server, or anybody between, tries to end the process: each to a command that
// expects another. They are data for tests of everything that reads from Redis.
func HostileReplies() map[string]string {
	replies := map[string]string{
		"one reply too many":        "+OK\r\n+OK\r\n",
		"many replies":              strings.Repeat("+OK\r\n", 1000),
		"one error too many":        "-ERR no\r\n-ERR no\r\n",
		"one string too many":       Bulk("") + Bulk(""),
		"a push and two replies":    ">2\r\n+invalidate\r\n_\r\n+OK\r\n+OK\r\n",
		"confirmed subscription":    ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n",
		"confirmed subscription 2":  "+OK\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n",
		"end of a subscription":     ">3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:1\r\n+OK\r\n+OK\r\n",
		"chunk of negative length":  "$?\r\n;-7\r\n",
		"chunk of huge length":      "$?\r\n;9223372036854775807\r\n",
		"streamed array":            "*?\r\n*-5\r\n",
		"streamed map":              "%?\r\n%-5\r\n",
		"string without data":       "$2147483647\r\n",
		"deep array":                strings.Repeat("*1\r\n", 100_000),
		"wide and deep array":       strings.Repeat("*1000000\r\n", 100),
		"array in an array":         "*1\r\n*-5\r\n",
		"attribute":                 "|-1\r\n+OK\r\n",
		"attribute of an attribute": "|1\r\n+a\r\n|-7\r\n",
		"MOVED":                     "-MOVED\r\n",
		"MOVED nowhere":             "-MOVED 1\r\n",
		"MOVED after ERR":           "-ERR MOVED\r\n",
		"MOVED to itself":           "-MOVED 1 127.0.0.1:1\r\n",
		"ASK":                       "-ASK\r\n",
		"ASK as a string":           "!3\r\nASK\r\n",
		"REDIRECT":                  "-REDIRECT\r\n",
		"nothing of a role":         "*0\r\n",
		"half of a map":             "*1\r\n+a\r\n",
		"text with nested arrays":   Array(Array(), Array(Array())),
		"push in an array":          "*1\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n",
		"HTTP":                      "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
		"null":                      "_\r\n",
		"lines without an end":      "+" + strings.Repeat("a", 5<<20),
	}
	for _, channel := range []string{"+sentinel", "+switch-master", "+reboot"} {
		replies["event "+channel] = Push(Bulk("message"), Bulk(channel), Bulk("m"))
		replies["event "+channel+" of an array"] = Push(Bulk("message"), Bulk(channel), Array(Array()))
	}
	for _, kind := range "$*%~>!=|;" {
		for _, length := range []string{"-2", "-5", "-9223372036854775808", "2147483647", "4611686018427387905", "9223372036854775807", "18446744073709551617"} {
			replies["length "+string(kind)+length] = string(kind) + length + "\r\n"
		}
	}
	return replies
}
