package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/penstock-io/penstock/internal/redistest"
)

// Each file in testdata is a conversation with one node: its configuration, its rules, then requests to a
// listener and the responses, byte for byte except for the date line. It is the same for every store. Waits in it
// are exact: the request that starts them reports them, under count_denied and with a ban.
//
// To accept the current responses: PENSTOCK_TEST_UPDATE=1 go test ./e2e -run TestAnswers.
func TestAnswers(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Run("memory", func(t *testing.T) { converse(t, archive, accepting()) })
			if accepting() {
				if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Run("redis", func(t *testing.T) { converse(t, archive, false, onRedis("single", redistest.Start(t).Addr)) })
		})
	}
}

func accepting() bool { return os.Getenv("PENSTOCK_TEST_UPDATE") != "" }

// converse sends all requests in order, and compares or accepts each response.
func converse(t *testing.T, archive *txtar.Archive, accept bool, config ...string) {
	files := archive.Files
	if len(files) < 4 || len(files)%2 != 0 || files[0].Name != "penstock.yaml" || files[1].Name != "rules.yaml" {
		t.Fatal("it must begin with penstock.yaml and rules.yaml, and go on with questions and answers")
	}
	n := start(t, append(config, string(files[0].Data), newUpstream(t).config(), rulesFile(t, string(files[1].Data)))...)
	n.awaitStore()
	for i := 2; i < len(files); i += 2 {
		t.Run(files[i].Name, func(t *testing.T) {
			got := n.repeat(t, files[i].Name, string(files[i].Data))
			if accept {
				files[i+1] = txtar.File{Name: "answer", Data: []byte(got)}
			}
			if want := string(files[i+1].Data); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// A question is named "gateway: why it is asked", or "gateway, 2 times: why".
var question = regexp.MustCompile(`^(\w+)(?:, (\d+) times)?: `)

// repeat sends the request as often as its name says and returns the last response.
func (n *node) repeat(t *testing.T, name, text string) (last string) {
	t.Helper()
	parts := question.FindStringSubmatch(name)
	if parts == nil {
		t.Fatalf("the name is not like %v", question)
	}
	times, _ := strconv.Atoi(parts[2])
	for range max(times, 1) {
		last = n.speak(t, parts[1], text)
	}
	return last
}

var dated = regexp.MustCompile(`(?m)^Date: .*\r\n`)

// speak sends a request as it is written, with the lines that every request needs, and returns the raw response.
func (n *node) speak(t *testing.T, door, text string) string {
	t.Helper()
	head, body, _ := strings.Cut(text, "\n\n")
	head = strings.TrimSuffix(head, "\n") + "\nHost: penstock.test\nX-Request-Id: the-id\nConnection: close\n"
	if body = strings.TrimSuffix(body, "\n"); body != "" {
		head += fmt.Sprintf("Content-Type: application/json\nContent-Length: %d\n", len(body))
	}
	conn, err := net.Dial("tcp", n.addresses[door])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patient)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n"+body); err != nil {
		t.Fatal(err)
	}
	reply, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if len(dated.FindAll(reply, -1)) != 1 {
		t.Errorf("an answer has one date: %s", reply)
	}
	reply = bytes.ReplaceAll(dated.ReplaceAll(reply, nil), []byte("\r\n"), []byte("\n"))
	if !bytes.HasSuffix(reply, []byte("\n")) { // which the format cannot tell
		reply = append(reply, "\n(no newline at the end)\n"...)
	}
	return string(reply)
}
