package messages

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const goSource = "package p\n" + `
import "two words/in an import"

type settings struct {
	Port int ` + "`doc:\"the port\" yaml:\"port\"`" + `
}

func f(log logger, n int, err error) error {
	log.Info("started", "port", n)
	log.WarnContext(ctx, "it is " + kind + " again", slog.Int("count", n), "error", errors.New("inner"))
	query("SELECT a FROM b")
	print("press any key")
	name("word")
	if n > 1 {
		return errors.New("closed")
	}
	return fmt.Errorf("port %d: "+
		"must be below %d", n, 9)
}
`

func TestGo(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a/p.go": goSource, "a/p_test.go": `package p; var x = "not this one"`, "kit/k.go": `package kit; var x = "nor this one"`} {
		write(t, filepath.Join(dir, name), text)
	}
	found, err := Go(dir, func(pkg string) bool { return pkg == "kit" })
	if err != nil {
		t.Fatal(err)
	}
	want := []Message{
		{Package: "a", Kind: Error, Text: "closed"},
		{Package: "a", Kind: Error, Text: "inner"},
		{Package: "a", Kind: Error, Text: "port %d: must be below %d"},
		{Package: "a", Kind: Help, Text: "the port"},
		{Package: "a", Kind: Log, Level: "warn", Fields: []string{"count", "error"}, Text: "it is … again"},
		{Package: "a", Kind: Log, Level: "info", Fields: []string{"port"}, Text: "started"},
		{Package: "a", Kind: Text, Text: "press any key"},
	}
	if !slices.EqualFunc(found, want, func(a, b Message) bool { return compare(a, b) == 0 }) {
		t.Errorf("got  %q\nwant %q", found, want)
	}
	if _, err := Go(t.TempDir(), func(string) bool { return false }); err == nil {
		t.Error("an empty folder is not an error")
	}
}

const webSource = `
import { x } from './two words'
// a comment with words
export function Panel({ n }: Props) {
  const shown = n > 1 && n < 3
  return (
    <div class="row of-cards" title='Used'>
      Denied <b>{count(n)} times</b>
      {n > 2 ? 'Try again' : 'keyboard'}
    </div>
  )
}
`

func TestWeb(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "screens/panel.tsx"), webSource)
	found, err := Web(dir)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range found {
		texts = append(texts, m.Text)
	}
	if want := []string{"Denied", "Try again", "Used", "times"}; !slices.Equal(texts, want) {
		t.Errorf("got %q, want %q", texts, want)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
