package accesslog

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/penstock-io/penstock/attribute"
	_ "github.com/penstock-io/penstock/internal/fixedseed"
)

var usual = []Attribute{{Name: "ip"}, {Name: "method"}, {Name: "host"}, {Name: "path"}}

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readAll(t testing.TB, o Options, paths ...string) ([]string, Stats) {
	t.Helper()
	l, err := Open(paths, o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var all []string
	for {
		r, err := l.Next()
		if errors.Is(err, io.EOF) {
			return all, l.Stats()
		}
		if err != nil {
			t.Fatal(err)
		}
		text := r.At.Format("15:04:05.000")
		if r.Took >= 0 {
			text += " " + r.Took.String()
		}
		for _, a := range r.Attributes {
			text += " " + a.Name + "=" + a.Value
		}
		all = append(all, text)
	}
}

// Every format is detected, and yields the same attributes as a gateway would.
func TestFormats(t *testing.T) {
	user := Attribute{Name: "user", From: &attribute.Source{Header: "X-User"}}
	for _, test := range []struct {
		format, text string
		fields       map[string]string
		attributes   []Attribute
		want         string
	}{
		{"combined", `198.51.100.7 - ann [16/Nov/2026:09:12:01 +0100] "GET /search?q=1 HTTP/1.1" 200 512 "-" "curl/8"`, nil, usual,
			"08:12:01.000 ip=198.51.100.7 method=GET path=/search"},
		{"combined", `example.com:443 2001:db8::1:2:3:4 - - [16/Nov/2026:09:12:01 +0000] "POST /a\x22b HTTP/2.0" 200 - "-" "a \"quoted\" agent"`, nil, usual,
			`09:12:01.000 ip=2001:db8:: method=POST host=example.com path=/a"b`},
		{"combined", `198.51.100.7 - - [16/Nov/2026:09:12:01 +0000] "GET / HTTP/1.1" 200 512 "-" "curl/8" "u7" 0.250`, map[string]string{"user": "extra1", "duration": "extra2"}, []Attribute{user},
			"09:12:00.000 250ms user=u7"},
		{"combined", `198.51.100.7 - - [16/Nov/2026:09:12:01 +0000] "GET /?key=k%201 HTTP/1.1" 200 512`, nil, []Attribute{{Name: "key", From: &attribute.Source{Query: "key"}}},
			"09:12:01.000 key=k 1"},
		{"caddy", `{"level":"info","ts":1794820321.75,"logger":"http.log.access","request":{"remote_ip":"10.0.0.1","client_ip":"198.51.100.7","method":"GET","host":"Example.com:8443","uri":"/x?y=1","headers":{"X-User":["u1"]}},"duration":0.5,"size":10,"status":200}`, nil, append(usual, user),
			"09:12:01.250 500ms ip=198.51.100.7 method=GET host=example.com path=/x user=u1"},
		{"envoy", `{"start_time":"2026-11-16T09:12:01.123Z","method":"GET","path":"/x?y=1","authority":"example.com","response_code":200,"duration":12,"downstream_remote_address":"198.51.100.7:4711"}`, nil, usual,
			"09:12:01.123 12ms ip=198.51.100.7 method=GET host=example.com path=/x"},
		{"haproxy", `Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu|u9} {} "GET /index.html HTTP/1.1"`, map[string]string{"user": "extra2", "host": "extra1"}, append(usual, user),
			"12:14:14.655 109ms ip=10.0.1.2 method=GET host=1wt.eu path=/index.html user=u9"},
		{"alb", `https 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://www.example.com:443/a?b HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:x "Root=1-5" "www.example.com" "arn:aws:y" 1 2018-07-02T22:22:48.364000Z "authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-"`, nil, usual,
			"22:22:48.364 171ms ip=192.168.131.39 method=GET host=www.example.com path=/a"},
		{"cloudfront", "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query time-taken\n2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td111111abcdef8.cloudfront.net\t/index.html\t200\t-\tMozilla/5.0%20(X11)\tk=v\t0.001", nil, append(usual, Attribute{Name: "agent", From: &attribute.Source{Header: "User-Agent"}}, Attribute{Name: "k", From: &attribute.Source{Query: "k"}}),
			"21:02:30.000 1ms ip=192.0.2.100 method=GET host=d111111abcdef8.cloudfront.net path=/index.html agent=Mozilla/5.0 (X11) k=v"},
		{"jsonl", `{"@timestamp":"2026-11-16T09:12:01+00:00","remote_addr":"198.51.100.7","request_method":"GET","request_uri":"/x?y","http_host":"a.example","request_time":"0.100","uid":7}`, map[string]string{"user": "uid"}, append(usual, user),
			"09:12:01.000 100ms ip=198.51.100.7 method=GET host=a.example path=/x user=7"},
		{"replay", `{"time":1794820321000001,"domain":"default","cost":2,"attributes":{"ip":"2001:db8::7","path":"/a%3fb","user":"u1"},"allowed":true,"reason":"ok","quality":"exact"}`, nil, append(usual, user),
			"09:12:01.000 ip=2001:db8::7 path=/a%3fb user=u1"},
		{"csv", "when,who,verb,url\n1794820321250,198.51.100.7,GET,\"/a,b\"", map[string]string{"time": "when", "ip": "who"}, usual,
			"09:12:01.250 ip=198.51.100.7 method=GET path=/a,b"},
	} {
		got, stats := readAll(t, Options{Fields: test.fields, Attributes: test.attributes}, write(t, "log", test.text+"\n"))
		if len(got) != 1 || got[0] != test.want || stats.Formats[0] != test.format || stats.Bad != 0 {
			t.Errorf("%s:\n got %q (%s, %v)\nwant %q", test.format, got, stats.Formats, stats.BadLines, test.want)
		}
	}
}

func TestCompressed(t *testing.T) {
	line := "198.51.100.7 - - [16/Nov/2026:09:12:01 +0000] \"GET / HTTP/1.1\" 200 512\n"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, strings.Repeat(line, 1000))
	z.Close()
	whole := packed.String()
	encoder, _ := zstd.NewWriter(nil)
	files := []string{
		write(t, "a", line), write(t, "b.gz", whole),
		write(t, "c.zst", string(encoder.EncodeAll([]byte(strings.Repeat(line, 1000)), nil))),
	}
	all, stats := readAll(t, Options{}, files...)
	if len(all) != 2001 || stats.Bad != 0 {
		t.Errorf("%d requests, %v", len(all), stats.BadLines)
	}
	// Truncation is reported, and everything before it counts.
	all, stats = readAll(t, Options{}, write(t, "cut.gz", whole[:len(whole)-30]))
	if stats.Bad != 2 || !strings.Contains(stats.BadLines[1].Error, "cannot read further: unexpected EOF") {
		t.Errorf("cut off: %d requests, %v", len(all), stats.BadLines)
	}
}

func TestBadLines(t *testing.T) {
	text := `198.51.100.7 - - [16/Nov/2026:09:12:01 +0000] "GET / HTTP/1.1" 200 512
198.51.100.7 - - [16/Nov/2026:25:12:01 +0000] "GET / HTTP/1.1" 200 512

198.51.100.7 - - [16/Nov/2026:09:12:01 +0000] "\x16\x03\x01" 400 0
` + strings.Repeat("x", 2*maxLine) + `
198.51.100.7 - - [16/Nov/2026:09:12:02 +0000] "GET / HTTP/1.1" 200 512 "unfinished`
	all, stats := readAll(t, Options{}, write(t, "access.log", text))
	if len(all) != 2 || stats.Lines != 5 || stats.Bad != 3 {
		t.Errorf("got %d requests of %d lines, %d bad", len(all), stats.Lines, stats.Bad)
	}
	var where []string
	for _, b := range stats.BadLines {
		where = append(where, fmt.Sprint(b.Line, " ", b.Error))
	}
	want := []string{`2 "16/Nov/2026:25:12:01 +0000" is not a time like 16/Nov/2026:09:12:01 +0000`, "4 the request line is not a method and a target", "5 longer than 262144 bytes"}
	if !slices.Equal(where, want) {
		t.Errorf("got %q\nwant %q", where, want)
	}
}

func TestRefused(t *testing.T) {
	line := `198.51.100.7 - - [16/Nov/2026:09:12:01 +0000] "GET / HTTP/1.1" 200 512` + "\n"
	for _, test := range []struct {
		options    Options
		name, text string
		want       string
	}{
		{Options{}, "a", "\x00\x01\x02", "a binary file, not a log"},
		{Options{}, "a", "hello\nworld\n", `unknown log format: no line could be read; the first is "hello"`},
		{Options{Format: "iis"}, "a", line, `unknown log format "iis"; known are alb, haproxy, combined`},
		{Options{Attributes: []Attribute{{Name: "user", From: &attribute.Source{Header: "X-User"}}}}, "a", line, `a log of format combined does not have the attribute "user"; if the log has it after the usual fields, say where with --field user=extra1`},
		{Options{Attributes: usual, Fields: map[string]string{"ip": "client"}}, "a", line, `--field ip=client: a line of format combined has no field "client"; it has ip, user,`},
		{Options{Window: time.Millisecond}, "a", line, "window 1ms; lines can be out of order by 1s to 1h0m0s"},
		{Options{}, "a.gz", "\x1f\x8b no gzip", "read gzip"},
	} {
		l, err := Open([]string{write(t, test.name, test.text)}, test.options)
		if err == nil {
			err = l.CheckAttribute(test.options.Attributes[0])
			l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v\nwant %s", err, test.want)
		}
	}
	if _, err := Open([]string{t.TempDir()}, Options{}); err == nil || !strings.Contains(err.Error(), "it is a directory") {
		t.Errorf("directory: %v", err)
	}
	if _, err := Open([]string{"missing"}, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

// Requests of one second are spread over it evenly and in order, also when merged with a log that has fractions.
func TestSpread(t *testing.T) {
	line := func(second int, path string) string {
		return fmt.Sprintf("198.51.100.7 - - [16/Nov/2026:09:12:%02d +0000] \"GET /%s HTTP/1.1\" 200 512\n", second, path)
	}
	whole := write(t, "a", line(1, "a")+line(1, "b")+line(2, "e")+line(1, "c")+line(1, "d"))
	fine := write(t, "b", `{"time":"2026-11-16T09:12:01.3Z","path":"/x"}`+"\n")
	got, _ := readAll(t, Options{Attributes: usual[3:]}, whole, fine)
	want := []string{"09:12:01.000 path=/a", "09:12:01.250 path=/b", "09:12:01.300 path=/x", "09:12:01.500 path=/c", "09:12:01.750 path=/d", "09:12:02.000 path=/e"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// However lines are out of order within the window, and however they are divided among files, requests come in
// order of time and none is lost.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const window = 5_000
		files := make([]strings.Builder, rapid.IntRange(1, 3).Draw(t, "files"))
		n := rapid.IntRange(0, 200).Draw(t, "lines")
		now := int64(1_794_820_321_000)
		for i := range n {
			now += rapid.Int64Range(0, 400).Draw(t, "step")
			at := now - rapid.Int64Range(0, window-1).Draw(t, "late")
			fmt.Fprintf(&files[rapid.IntRange(0, len(files)-1).Draw(t, "file")], `{"time":%d,"path":"/%d"}`+"\n", at, i)
		}
		dir, err := os.MkdirTemp("", "order")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		var paths []string
		for i := range files {
			paths = append(paths, filepath.Join(dir, fmt.Sprint(i)))
			if err := os.WriteFile(paths[i], []byte(files[i].String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		l, err := Open(paths, Options{Attributes: usual, Window: window * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		seen := map[string]bool{}
		var last time.Time
		for {
			r, err := l.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || r.At.Before(last) || seen[r.Attributes[0].Value] {
				t.Fatalf("%v after %v, %v, %v", r, last, err, seen)
			}
			last, seen[r.Attributes[0].Value] = r.At, true
		}
		if s := l.Stats(); len(seen) != n || s.Late != 0 || s.Requests != int64(n) {
			t.Fatalf("%d of %d requests, %d late", len(seen), n, s.Late)
		}
	})
}

// A request that is out of order by more than the window is decided late rather than not at all.
func TestLate(t *testing.T) {
	got, stats := readAll(t, Options{Attributes: usual[3:], Window: time.Second}, write(t, "a", `{"time":1794820321.5,"path":"/a"}
{"time":1794820341.5,"path":"/b"}
{"time":1794820361.5,"path":"/c"}
{"time":1794820311.5,"path":"/d"}
`))
	if want := []string{"09:12:01.500 path=/a", "09:12:21.500 path=/b", "09:12:21.500 path=/d", "09:12:41.500 path=/c"}; !slices.Equal(got, want) || stats.Late != 1 {
		t.Errorf("got %q, %d late\nwant %q", got, stats.Late, want)
	}
}

func FuzzParsers(f *testing.F) {
	f.Add(`198.51.100.7 - ann [16/Nov/2026:09:12:01 +0100] "GET /search?q=1 HTTP/1.1" 200 512 "-" "curl/8"`)
	f.Add(`{"ts":1e9,"request":{"headers":{"A":[]}}}`)
	f.Add("#Fields: date time\n1\t2")
	f.Fuzz(func(t *testing.T, text string) {
		o := &Options{Location: time.UTC, Attributes: append(usual, Attribute{Name: "u", From: &attribute.Source{Header: "X-User"}})}
		for _, format := range Formats() {
			p := format.newParser(o)
			for line := range strings.SplitSeq(text, "\n") {
				var e entry
				if p.parse(line, &e) == nil {
					for i := range o.Attributes {
						o.value(e.fields, &o.Attributes[i])
					}
				}
			}
		}
	})
}
