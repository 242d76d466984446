package config

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/spelling"
)

const referenceFile = "../../docs/reference/configuration.md"

// The reference is made from the tags of config. After a change there:
// PENSTOCK_TEST_UPDATE=1 go test ./internal/config -run TestReference
func TestReferenceIsCurrent(t *testing.T) {
	want := reference()
	if os.Getenv("PENSTOCK_TEST_UPDATE") != "" {
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/reference/configuration.md is not what config.go says: PENSTOCK_TEST_UPDATE=1 go test ./internal/config -run TestReference")
	}
}

func reference() string {
	var b strings.Builder
	b.WriteString(`# Configuration

` + "`penstock serve`" + ` reads a YAML file (` + "`--config`" + ` or ` + "`PENSTOCK_CONFIG`" + `), then the environment, then flags: the later beats the earlier. Every key is also an environment variable: ` + "`PENSTOCK_`" + ` and the key in capitals, ` + "`_`" + ` for dots; lists with commas. An unknown field is an error, and so is an unknown ` + "`PENSTOCK_…`" + ` variable; what Kubernetes sets for services (` + "`PENSTOCK_SERVICE_*`" + `, ` + "`PENSTOCK_PORT*`" + `) and ` + "`PENSTOCK_TEST_*`" + ` are ignored. All errors are reported at once with where they are. ` + "`penstock serve --check`" + ` checks everything that a start checks (configuration, rules, certificates, secrets, ` + "`data_dir`" + `; not whether ports are free) and says ` + "`ok`" + ` or every error; ` + "`--connect`" + ` adds Redis, the rules database, the JWKS URL and the upstreams; ` + "`penstock doctor`" + ` takes the same configuration and [looks at all that it rests on](../how-to/doctor.md).

` + "```yaml\n" + exampleConfig + "```" + `

Secrets can be in files of their own: ` + "`key_secret_file`" + ` instead of ` + "`key_secret`" + `, and so on; the newline at the end of such a file does not count. Files of secrets and private keys, and a configuration file with secrets in it, must not be writable by everybody, or the server does not start; it warns about one that everybody can read or its group can change. ` + "`chmod 600`" + ` does; in Kubernetes, ` + "`defaultMode: 0400`" + ` of the volume. Give secrets in files or the environment rather than on the command line, which every user of the machine can read: ` + "`--database-file`" + ` instead of ` + "`--database postgres://user:password@…`" + `. Logs, errors and status show URLs without user, password and query.

Flags: ` + flagList() + `.

## Keys

`)
	table(&b, settings(reflect.ValueOf(Default()).Elem(), ""))
	b.WriteString("\n## Of each upstream\n\n")
	upstream := DefaultUpstream()
	table(&b, settings(reflect.ValueOf(&upstream).Elem(), ""))
	return b.String()
}

const exampleConfig = `listen: {gateway: ":8080", admin: "127.0.0.1:8091"}
upstreams:
  - {path: /, url: "http://127.0.0.1:3000"}
  - {path: /files, urls: ["http://10.0.0.5:80", "http://10.0.0.6:80"], health: {path: /up}}
store:
  redis: {addresses: ["127.0.0.1:6379"]}
rules:
  database: postgres://penstock@db/penstock
key_secret_file: /run/secrets/penstock-key
trusted_proxies: [10.0.0.0/8]
`

func flagList() string {
	list := []string{"`--config`", "`--demo`", "`--check`"}
	for _, f := range flagKeys {
		list = append(list, fmt.Sprintf("`--%s` (`%s`)", f.flag, f.path))
	}
	return strings.Join(list, ", ")
}

func table(b *strings.Builder, all []setting) {
	b.WriteString("| key | default | |\n|---|---|---|\n")
	for _, s := range all {
		doc := s.doc
		if len(s.oneof) > 0 {
			doc = strings.TrimSuffix("`"+strings.Join(s.oneof, "`, `")+"`: "+doc, ": ")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", s.path, shownDefault(s.value), doc)
	}
}

func shownDefault(v reflect.Value) string {
	text := fmt.Sprint(v.Interface())
	if d, ok := v.Interface().(time.Duration); ok && d < 24*time.Hour { // days cannot be written in a configuration
		text = spelling.Duration(d)
	}
	if v.IsZero() && v.Kind() != reflect.Bool && v.Kind() != reflect.Int && v.Kind() != reflect.Int64 {
		return ""
	}
	return "`" + text + "`"
}

// The example of the reference is a working configuration.
func TestReferenceExample(t *testing.T) {
	_, err := load(t, strings.Replace(exampleConfig, "key_secret_file: /run/secrets/penstock-key", "key_secret: 0123456789abcdef", 1), nil)
	if err != nil {
		t.Error(err)
	}
}
