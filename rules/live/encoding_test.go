package live_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/rules/live"
)

func TestTextComesBackAsItWas(t *testing.T) {
	published := time.Date(2026, 11, 15, 8, 30, 0, 123456000, time.UTC)
	for _, text := range []*live.Text{
		live.NewText(12, published, rules.File{Name: "version 12", Data: []byte(ruleNamed("one"))}),
		live.NewText(0, time.Time{}, rules.File{Name: "a.yaml", Data: []byte("rules: []\n")}, rules.File{Name: "ü\n.yaml", Data: []byte{}}),
	} {
		data, err := text.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := live.DecodeText(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text, got, cmpopts.IgnoreUnexported(live.Text{}), cmpopts.EquateEmpty()); diff != "" || !got.Same(text) {
			t.Error(diff)
		}
		for i := range data { // whatever byte is lost or changed
			altered := bytes.Clone(data)
			altered[i] ^= 0x20
			if _, err := live.DecodeText(altered); err == nil {
				t.Errorf("byte %d may be changed", i)
			}
			if _, err := live.DecodeText(data[:i]); err == nil {
				t.Errorf("may end at byte %d", i)
			}
		}
		if _, err := live.DecodeText(append(data, '\n')); err == nil {
			t.Error("more may follow")
		}
	}
}

// Texts written by the first version of this format stay readable, and are written the same. Nodes of two
// versions read each other's rules in Redis, and after an upgrade each its last good ones.
func TestRecordedText(t *testing.T) {
	const recorded = "penstock rules 1\n" +
		"sha256:56a647d75fb73418d63543345f36db27588af12517a413c0107c7ca15f553f4c\n" +
		`{"version":12,"published":"2026-11-15T08:30:00.123456Z","files":[{"name":"a.yaml","size":10},{"name":"b.yaml","size":7}]}` + "\n" +
		"rules: []\n# none\n"
	text := live.NewText(12, time.Date(2026, 11, 15, 8, 30, 0, 123456000, time.UTC),
		rules.File{Name: "a.yaml", Data: []byte("rules: []\n")}, rules.File{Name: "b.yaml", Data: []byte("# none\n")})
	got, err := live.DecodeText([]byte(recorded))
	if err != nil || !got.Same(text) {
		t.Errorf("read %+v, %v", got, err)
	}
	written, err := text.Encode()
	if diff := cmp.Diff(recorded, string(written)); err != nil || diff != "" {
		t.Errorf("%v (-recorded +written)\n%s", err, diff)
	}
}

// ofFormat alters an encoded text so that it is of another format.
func ofFormat(version string) func([]byte) []byte {
	return func(data []byte) []byte {
		return bytes.Replace(data, []byte("penstock rules 1\n"), []byte("penstock rules "+version+"\n"), 1)
	}
}

func TestWhatIsTooMuchIsNotEncoded(t *testing.T) {
	some := rules.File{Name: "a", Data: []byte("rules: []")}
	for name, text := range map[string]*live.Text{
		"no file":          live.NewText(1, time.Time{}),
		"many files":       live.NewText(1, time.Time{}, make([]rules.File, 1001)...),
		"negative version": live.NewText(-1, time.Time{}, some),
		"long name":        live.NewText(1, time.Time{}, rules.File{Name: strings.Repeat("a", 4097)}),
		"name not UTF-8":   live.NewText(1, time.Time{}, rules.File{Name: "\xff"}),
		"large":            live.NewText(1, time.Time{}, some, rules.File{Name: "b", Data: make([]byte, rules.MaxDocument)}),
		"impossible time":  live.NewText(1, time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC), some),
	} {
		if _, err := text.Encode(); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
}

func TestSameText(t *testing.T) {
	a := textOf(1, ruleNamed("one"))
	for name, other := range map[string]*live.Text{
		"version":  textOf(2, ruleNamed("one")),
		"contents": textOf(1, ruleNamed("two")),
		"nothing":  nil,
	} {
		if a.Same(other) {
			t.Errorf("same with another %s", name)
		}
	}
	if !a.Same(textOf(1, ruleNamed("one"))) {
		t.Error("not the same as the same read again")
	}
	cut := func(at int) *live.Text {
		const data = "rules: []"
		return live.NewText(1, time.Time{}, rules.File{Name: "a", Data: []byte(data[:at])}, rules.File{Name: "b", Data: []byte(data[at:])})
	}
	if cut(1).Same(cut(2)) {
		t.Error("same where a part has moved to another file")
	}
}

// Everything that is read as a text is written back byte for byte, except for variations of JSON.
func FuzzDecodeText(f *testing.F) {
	for _, text := range []*live.Text{
		textOf(1, ruleNamed("one")),
		live.NewText(0, time.Time{}, rules.File{Name: "a.yaml", Data: []byte("rules: []")}, rules.File{Name: "b.yaml"}),
	} {
		data, err := text.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Add([]byte("penstock rules 1\nsha256:"))
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := live.DecodeText(data)
		if err != nil {
			return
		}
		again, err := text.Encode()
		if err != nil {
			t.Fatal(err)
		}
		second, err := live.DecodeText(again)
		if err != nil || !second.Same(text) || !second.Published.Equal(text.Published) {
			t.Errorf("%+v came back as %+v, %v", text, second, err)
		}
	})
}
