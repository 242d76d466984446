package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/nodetest"
)

// canary is a secret that no output may contain, nor a part of it that is long enough to help.
const (
	canary     = "c4n4ry"
	longCanary = "c4n4ry-0123456789-0123456789-0123456789"
)

// malformedURLs contain the canary where a password or a token may be.
func malformedURLs(t *testing.T) (all []string) {
	t.Helper()
	lines, err := os.ReadFile("../../internal/urlform/testdata/malformed.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(lines)) {
		if text, err := strconv.Unquote(strings.TrimSpace(line)); err == nil {
			all = append(all, strings.ReplaceAll(text, "SECRET", canary))
		}
	}
	if len(all) < 20 {
		t.Fatalf("%d malformed URLs", len(all))
	}
	return all
}

// wellFormedURLs contain it where it belongs. Nothing listens at the address.
var wellFormedURLs = []string{
	"http://user:" + canary + "@127.0.0.1:1/keys", "http://" + canary + "@127.0.0.1:1", "http://127.0.0.1:1/keys?token=" + canary,
	"postgres://user:" + canary + "@127.0.0.1:1/db", "postgres://user@127.0.0.1:1/db?password=" + canary, "postgres://user:" + canary + "@127.0.0.1:1/db?sslmode=nonsense",
}

// tell runs a command in this process and returns its output.
func tell(t *testing.T, env []string, args ...string) string {
	t.Helper()
	var out nodetest.SyncBuffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &out, env: env}
	ctx, cancel := context.WithTimeout(t.Context(), nodetest.Timeout)
	defer cancel()
	a.run(ctx, args)
	return out.String()
}

// No command prints a secret, whatever is wrong with its setting.
func TestNoOutputTellsSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(env []string, args ...string) {
		t.Helper()
		env = append([]string{"PENSTOCK_DATA_DIR=" + dir}, env...)
		if out := tell(t, env, args...); strings.Contains(out, canary) {
			t.Errorf("%q %q:\n%s", env, args, out)
		}
	}
	file := filepath.Join(dir, "penstock.yaml")
	forms := append(malformedURLs(t), wellFormedURLs...)
	if testing.Short() {
		forms = slices.Concat(forms[:3], wellFormedURLs[:1])
	}
	for _, name := range secretSettings() {
		if !strings.HasSuffix(name, "_ADDRESSES") && name != "PENSTOCK_JWT_JWKS_URL" { // which a bare word is a host for
			run([]string{name + "=" + canary}, "serve", "--check", "--demo")
			run([]string{name + "=" + longCanary}, "serve", "--check", "--demo")
		}
	}
	for _, form := range forms {
		for _, name := range secretSettings() {
			run([]string{name + "=" + form, "PENSTOCK_KEY_SECRET=0123456789abcdef"}, "serve", "--check", "--demo")
		}
		run(nil, "serve", "--check", "--upstream", form)
		run([]string{"PENSTOCK_UPSTREAMS=" + form}, "serve", "--check")
		run([]string{"PENSTOCK_UPSTREAMS=[{url: " + form + "}]"}, "serve", "--check")
		run([]string{fmt.Sprintf("PENSTOCK_UPSTREAMS=[{urls: [%q, 'http://127.0.0.1:1']}]", form)}, "serve", "--check")
		for _, yaml := range []string{"upstreams: [{url: %s}]", "upstreams:\n  - %s", "jwt: {jwks_url: %s}", "jwt:\n  jwks_url: %s", "store: {redis: {addresses: [%s]}}", "rules: {database: %s}", "admin:\n  token: %s", "%s", "%s: x"} {
			nodetest.WriteFile(t, file, fmt.Sprintf(yaml, form))
			run(nil, "serve", "--check", "--config", file)
		}
		database := strings.Replace(form, "http", "postgres", 1)
		database = strings.Replace(database, "//"+canary+"@", "//user:"+canary+"@", 1) // names of users are shown
		for _, args := range [][]string{
			{"doctor", "--timeout", "1s", "--database", database}, {"doctor", "--timeout", "1s", "--redis", form}, {"doctor", "--timeout", "1s", "--upstream", form},
			{"rules", "history", "--database", database}, {"rules", "history", "--redis", form}, {"explain", "--database", database, "a=b"},
			{"check", "--timeout", "5s", "--server", form, "a=b"}, {"keys", "show", "--timeout", "5s", "--server", form, "--token", longCanary, "ip=192.0.2.1"},
		} {
			run([]string{"PENSTOCK_KEY_SECRET=0123456789abcdef"}, args...)
		}
	}
}

// A server whose every setting contains a secret, and whose stores and issuers cannot be reached, reveals none of
// them: not in its log, its greeting, its status, its metrics, nor at the end.
func TestServerTellsNoSecrets(t *testing.T) {
	dir := t.TempDir()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nowhere := free.Addr().String()
	free.Close()
	for name, value := range map[string]string{
		"PENSTOCK_KEY_SECRET": longCanary + "-key", "PENSTOCK_ADMIN_TOKEN": longCanary + "-admin", "PENSTOCK_ADMIN_VIEWER_TOKEN": longCanary + "-viewer",
		"PENSTOCK_STORE_REDIS_ADDRESSES": nowhere, "PENSTOCK_STORE_REDIS_PASSWORD": longCanary, "PENSTOCK_STORE_REDIS_SENTINEL_PASSWORD": longCanary,
		"PENSTOCK_JWT_JWKS_URL":       "http://user:" + canary + "@" + nowhere + "/keys?token=" + canary,
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://user:" + canary + "@" + nowhere, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=" + canary, "OTEL_BSP_SCHEDULE_DELAY": "50",
		"PENSTOCK_LOG_LEVEL": "debug",
	} {
		t.Setenv(name, value)
	}
	database := filepath.Join(dir, "database")
	nodetest.WriteFile(t, database, "postgres://user:"+canary+"@"+nowhere+"/db?connect_timeout=1")
	nodetest.WriteFile(t, filepath.Join(dir, "rules.yaml"), attackRules)
	for name, rules := range map[string][]string{
		"reachable": {"--rules", filepath.Join(dir, "rules.yaml")}, "unreachable": {"--database-file", database}, "published": {"--database", "sqlite:" + filepath.Join(dir, "rules.db")},
	} {
		t.Run(name, func(t *testing.T) {
			var out nodetest.SyncBuffer
			p, err := tryProcess(t, &out, append(append(slices.Clone(onFreePorts), "--data-dir", dir), rules...)...)
			if err == nil {
				p.used(t)
				for _, path := range []string{"/v1/status", "/v1/nodes", "/metrics", "/v1/rules", "/v1/audit"} {
					_, body := p.request(t, "GET", "admin", path, "", "Authorization", "Bearer "+longCanary+"-admin")
					out.Write([]byte(body))
				}
				nodetest.Eventually(t, "the keys could not be fetched", func() bool { return strings.Contains(out.String(), "cannot fetch JWKS") })
				if name == "published" {
					nodetest.Eventually(t, "the rules could not be published", func() bool { return strings.Contains(out.String(), "cannot publish rules to Redis") })
				}
				_ = p.Process.Signal(syscall.SIGTERM)
				<-p.exited
			}
			out.Write([]byte(tell(t, os.Environ(), append([]string{"doctor", "--timeout", "1s", "--data-dir", dir}, rules...)...)))
			if text := out.String(); strings.Contains(text, canary) || len(text) < 200 {
				t.Errorf("it said:\n%s", text)
			}
		})
	}
}

// A server rejects a world-writable secret file, and warns about one that others can read or a group can change.
func TestModesOfSecretFiles(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	dir := t.TempDir()
	kept := filepath.Join(dir, "key_secret")
	for _, file := range []struct {
		path string
		env  []string
	}{
		{kept, nil},
		{filepath.Join(dir, "secret"), []string{"PENSTOCK_KEY_SECRET_FILE"}},
		{filepath.Join(dir, "secret"), []string{"PENSTOCK_ADMIN_TOKEN_FILE"}},
		{filepath.Join(dir, "secret"), []string{"PENSTOCK_ADMIN_VIEWER_TOKEN_FILE"}},
		{filepath.Join(dir, "secret"), []string{"PENSTOCK_JWT_SECRET_FILE"}},
		{filepath.Join(dir, "secret"), []string{"PENSTOCK_STORE_REDIS_PASSWORD_FILE"}},
		{filepath.Join(dir, "secret"), []string{"PENSTOCK_STORE_REDIS_SENTINEL_PASSWORD_FILE"}},
	} {
		nodetest.WriteFile(t, file.path, longCanary)
		env := []string{"PENSTOCK_DATA_DIR=" + dir}
		for _, name := range file.env {
			env = append(env, name+"="+file.path)
			if strings.Contains(name, "REDIS") { // a password without an address is an error
				env = append(env, "PENSTOCK_STORE_REDIS_ADDRESSES=127.0.0.1:1", "PENSTOCK_KEY_SECRET="+longCanary)
			}
		}
		for mode, want := range map[os.FileMode]string{
			0o666: "is writable by everybody (mode 0666)", 0o602: "is writable by everybody (mode 0602)", 0o644: "is readable by everybody (mode 0644)",
			0o444: "is readable by everybody (mode 0444)", 0o660: "is writable by its group (mode 0660)", 0o640: "", 0o600: "", 0o400: "",
		} {
			if err := os.Chmod(file.path, mode); err != nil {
				t.Fatal(err)
			}
			out := tell(t, env, "serve", "--check", "--demo")
			refused := !strings.Contains(out, "ok: configuration")
			if refused != (mode&0o002 != 0) || !strings.Contains(out, want) || (want == "") == strings.Contains(out, file.path) || strings.Contains(out, canary) {
				t.Errorf("%s %q, mode %#o: %s", file.path, file.env, mode, out)
			}
			if doctor := tell(t, env, "doctor", "--timeout", "1s"); !strings.Contains(doctor, want) || strings.Contains(doctor, canary) {
				t.Errorf("%s %q, mode %#o: doctor: %s", file.path, file.env, mode, doctor)
			}
		}
		if err := os.Remove(file.path); err != nil {
			t.Fatal(err)
		}
	}
}

// The same applies to a configuration file that contains a secret.
func TestModesOfConfigurationFiles(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "penstock.yaml")
	for text, holds := range map[string]bool{"admin: {token: " + longCanary + "}": true, "nodes: 1": false} {
		for mode, want := range map[os.FileMode]string{0o666: "is writable by everybody", 0o644: "is readable by everybody", 0o600: ""} {
			nodetest.WriteFile(t, config, text)
			if err := os.Chmod(config, mode); err != nil {
				t.Fatal(err)
			}
			out := tell(t, []string{"PENSTOCK_DATA_DIR=" + dir}, "serve", "--check", "--demo", "--config", config)
			refused := !strings.Contains(out, "ok: configuration")
			if refused != (holds && mode == 0o666) || strings.Contains(out, config) != (holds && want != "") || holds && !strings.Contains(out, want) {
				t.Errorf("%s, mode %#o: %s", text, mode, out)
			}
		}
	}
}

// The same applies to private keys.
func TestModesOfPrivateKeys(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	dir := t.TempDir()
	key := filepath.Join(dir, "key.pem")
	for _, name := range []string{"PENSTOCK_GATEWAY_TLS_KEY", "PENSTOCK_ADMIN_TLS_KEY", "PENSTOCK_STORE_REDIS_TLS_KEY"} {
		for mode, want := range map[os.FileMode]string{0o666: "is writable by everybody", 0o644: "is readable by everybody"} {
			nodetest.WriteFile(t, key, longCanary)
			if err := os.Chmod(key, mode); err != nil {
				t.Fatal(err)
			}
			if out := tell(t, []string{"PENSTOCK_DATA_DIR=" + dir, name + "=" + key}, "doctor", "--timeout", "1s"); !strings.Contains(out, want) {
				t.Errorf("%s, mode %#o: %s", name, mode, out)
			}
		}
	}
}

// The server itself rejects and warns, not only its rehearsal.
func TestServerChecksModes(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	dir := t.TempDir()
	kept := filepath.Join(dir, "key_secret")
	nodetest.WriteFile(t, kept, longCanary)
	for mode, want := range map[os.FileMode]string{0o666: "is writable by everybody", 0o644: "is readable by everybody"} {
		if err := os.Chmod(kept, mode); err != nil {
			t.Fatal(err)
		}
		var out nodetest.SyncBuffer
		_, err := tryProcess(t, &out, append(slices.Clone(onFreePorts), "--data-dir", dir)...)
		if (err != nil) != (mode == 0o666) || !strings.Contains(out.String(), want) {
			t.Errorf("mode %#o: %v: %s", mode, err, &out)
		}
	}
}

// A password on the command line works, with a warning that names the safer alternative.
func TestPasswordsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, env := filepath.Join(dir, "database"), []string{"PENSTOCK_DATA_DIR=" + dir}
	for source, warned := range map[string]bool{
		"postgres://user:" + canary + "@127.0.0.1:1/db": true, "postgres://127.0.0.1:1/db?user=u&password=" + canary: true,
		"postgres://user@127.0.0.1:1/db?sslmode=disable": false, "sqlite:" + filepath.Join(dir, "rules.db"): false,
	} {
		nodetest.WriteFile(t, file, source+"\n")
		for _, command := range [][]string{{"serve", "--check", "--demo"}, {"rules", "history"}, {"explain", "a=b"}, {"check", "a=b"}, {"doctor", "--timeout", "1s"}} {
			shown, hidden := tell(t, env, append(command, "--database", source)...), tell(t, env, append(command, "--database-file", file)...)
			const warning = "can read the password in the process list; put the URL into a file and name it with --database-file"
			if strings.Contains(shown, warning) != warned || strings.Contains(hidden, warning) || strings.Contains(shown+hidden, canary) {
				t.Errorf("%q %s:\n%s\n%s", command, source, shown, hidden)
			}
			if both := tell(t, env, append(command, "--database", source, "--database-file", file)...); command[0] != "serve" && command[0] != "doctor" && !strings.Contains(both, "none of the others can be") {
				t.Errorf("%q: both: %s", command, both)
			}
		}
		if out := tell(t, env, "serve", "--help"); !strings.Contains(out, "--database-file") {
			t.Error(out)
		}
	}
}

// secretSettings are the variables that can hold a secret.
func secretSettings() []string {
	return append(secretVariables(reflect.TypeFor[config.Config](), "PENSTOCK"), "PENSTOCK_STORE_REDIS_ADDRESSES", "PENSTOCK_STORE_REDIS_PER_SECOND_ADDRESSES")
}

func secretVariables(section reflect.Type, prefix string) (all []string) {
	for field := range section.Fields() {
		name := prefix + "_" + strings.ToUpper(field.Tag.Get("key"))
		switch {
		case field.Type == reflect.TypeFor[config.Secret](), field.Type == reflect.TypeFor[config.SecretURL]():
			all = append(all, name)
		case field.Type.Kind() == reflect.Struct && field.Tag.Get("key") != "":
			all = append(all, secretVariables(field.Type, name)...)
		}
	}
	return all
}

func TestSecretSettings(t *testing.T) {
	t.Parallel()
	if all := secretSettings(); len(all) != 13 || !slices.Contains(all, "PENSTOCK_ADMIN_VIEWER_TOKEN") {
		t.Errorf("got %q", all)
	}
}
