package deploy

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/redistest"
)

// program is the path of the binary.
var program string

func TestMain(m *testing.M) {
	os.Exit(nodetest.BuildAndRun(func(built string) int {
		program = built
		return m.Run()
	}))
}

const (
	perUser  = 10          // requests that each user may send
	sentEach = 2 * perUser // and sends
)

// Two nodes behind a proxy are restarted one after the other, as fast as they start, while clients send requests. No
// request fails, and each user gets exactly its limit, or not more if nodes were killed.
func TestRollingRestarts(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nodes have addresses of 127.0.0.0/8, which only Linux has without asking")
	}
	redis := redistest.Start(t)
	for name, p := range proxies {
		t.Run(name, func(t *testing.T) {
			p.find(t)
			nodes := [2]*restartable{newRestartable(t, redis.Addr), newRestartable(t, redis.Addr)}
			backend := startBackend(t)
			site := "http://" + p.start(t, [2]string{nodes[0].address, nodes[1].address}, backend.Listener.Addr().String())
			t.Run("stopped", func(t *testing.T) {
				testRestarts(t, site, nodes, (*restartable).stop, func(got outcomes) bool { return got.allowed == perUser })
			})
			t.Run("killed", func(t *testing.T) { // which may have charged what it did not answer
				testRestarts(t, site, nodes, (*restartable).kill, func(got outcomes) bool { return got.allowed <= perUser })
			})
		})
	}
}

func testRestarts(t *testing.T, site string, nodes [2]*restartable, end func(*restartable), correct func(outcomes) bool) {
	load := startLoad(t, site)
	for range 2 {
		for _, n := range nodes {
			end(n)
			load.await(sentEach)
			n.start()
		}
	}
	load.await(sentEach)
	load.finish()
	for user, got := range load.users {
		if !correct(got) || got.allowed+got.denied != sentEach {
			t.Errorf("%s: %d of %d requests were allowed and %d denied, with a limit of %d", user, got.allowed, sentEach, got.denied, perUser)
		}
	}
	t.Logf("%d requests of %d users", load.next, len(load.users))
}

// A restartable is a node that always has the same address.
type restartable struct {
	t       *testing.T
	dir     string
	address string
	process *nodetest.Process
}

func newRestartable(t *testing.T, redis string) *restartable {
	t.Helper()
	n := &restartable{t: t, dir: t.TempDir(), address: ownAddress(t)}
	rules := fmt.Sprintf("attributes: {user: {header: X-User}}\nrules: [{name: per-user, key: [user], limits: [{rate: %d/1d, burst: %[1]d, algorithm: token_bucket}]}]\n", perUser)
	config := fmt.Sprintf(`listen: {gateway: "", grpc: "", http: "%s", admin: "127.0.0.1:0"}
trusted_proxies: [127.0.0.1]
rules: {file: %s}
`, n.address, nodetest.RulesFile(t, rules)) + nodetest.OnRedis("single", redis)
	nodetest.WriteFile(t, filepath.Join(n.dir, "penstock.yaml"), config)
	n.start()
	return n
}

// ownAddress returns an address that no other process is given: not of the network that free ports are taken from.
func ownAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.%d.%d.%d:8090", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("no free address in 127.0.0.0/8")
	return ""
}

func (n *restartable) start() {
	n.t.Helper()
	c := exec.Command(program, "serve", "--config", "penstock.yaml", "--data-dir", ".")
	c.Dir, c.Env = n.dir, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.dir}, nodetest.Unhurried...)
	n.process = nodetest.StartProcess(n.t, c, filepath.Join(n.dir, "log"))
	nodetest.Eventually(n.t, "the node is ready", func() bool {
		response, err := http.Get("http://" + n.address + "/readyz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// stop ends the node as an init system does.
func (n *restartable) stop() {
	n.t.Helper()
	if err := n.process.Signal(syscall.SIGTERM); err != nil {
		n.t.Fatal(err)
	}
	<-n.process.Done()
	if code := n.process.Cmd.ProcessState.ExitCode(); code != 0 {
		n.t.Errorf("the node ended with status %d", code)
	}
}

// kill ends the node at once.
func (n *restartable) kill() {
	n.process.Kill()
	<-n.process.Done()
}

// A load is clients that send requests of one user after the other, of each the same number.
type load struct {
	t    *testing.T
	site string
	all  sync.WaitGroup

	mu    sync.Mutex
	next  int // number of requests begun
	end   int // number after which to stop; 0: not yet
	users map[string]outcomes
}

type outcomes struct{ allowed, denied int }

func startLoad(t *testing.T, site string) *load {
	l := &load{t: t, site: site, users: map[string]outcomes{}}
	for range 4 {
		l.all.Go(l.client)
	}
	t.Cleanup(l.finish)
	return l
}

// finish waits until the last user has sent all its requests.
func (l *load) finish() {
	l.mu.Lock()
	l.end = (l.next + sentEach - 1) / sentEach * sentEach
	l.mu.Unlock()
	l.all.Wait()
}

// await waits until clients have sent more requests.
func (l *load) await(more int) {
	l.t.Helper()
	begun := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.next
	}
	from := begun()
	nodetest.Eventually(l.t, "more requests are sent", func() bool { return begun() >= from+more })
}

// client sends requests, some with a body, on one connection.
func (l *load) client() {
	client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	for ; ; time.Sleep(time.Millisecond) {
		n, more := l.take()
		if !more {
			return
		}
		user, method := fmt.Sprintf("%s %d", l.t.Name(), n/sentEach), []string{http.MethodGet, http.MethodPost}[n%2]
		request, err := http.NewRequest(method, l.site+"/", nil)
		if err != nil {
			l.t.Error(err)
			return
		}
		request.Header.Set("X-User", user)
		response, err := client.Do(request)
		if err != nil {
			l.t.Errorf("%s of %s: %v", method, user, err)
			continue
		}
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil {
			l.t.Errorf("%s of %s: %v", method, user, err)
		}
		l.count(method, user, response)
	}
}

func (l *load) take() (n int, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end > 0 && l.next >= l.end {
		return 0, false
	}
	l.next++
	return l.next - 1, true
}

func (l *load) count(method, user string, response *http.Response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	got := l.users[user]
	switch {
	case response.StatusCode == http.StatusOK && response.Header.Get("X-Backend") != "":
		got.allowed++
	case response.StatusCode == http.StatusTooManyRequests:
		got.denied++
	default:
		l.t.Errorf("%s of %s: %s", method, user, response.Status)
	}
	l.users[user] = got
}
