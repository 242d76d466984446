package envoy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/penstock-io/penstock/internal/child"
	"github.com/penstock-io/penstock/internal/redistest"
)

// A server is a running contestant with its own Redis.
type server struct {
	process *child.Process
	redis   *redistest.Server
	conns   []*grpc.ClientConn
}

// connections is the number of connections, one for each worker of an Envoy.
const connections = 4

// launch starts a contestant. If it fails, its log says why.
func launch(ctx context.Context, dir string, c contestant) (_ *server, err error) {
	s := &server{}
	defer func() {
		if err != nil {
			s.stop()
			err = fmt.Errorf("start %s: %w", c.name, err)
		}
	}()
	if dir, err = os.MkdirTemp(dir, "server-"); err != nil {
		return nil, err
	}
	if s.redis, err = redistest.Launch(ctx); err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	cmd, err := c.command(dir, addr, s.redis.Addr)
	if err != nil {
		return nil, err
	}
	log := filepath.Join(dir, "log")
	cmd.Dir = dir
	if s.process, err = child.Start(cmd, log); err != nil {
		return nil, err
	}
	for range connections {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		s.conns = append(s.conns, conn)
	}
	if err := s.serves(ctx); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, child.LogTail(log))
	}
	return s, nil
}

// serves waits until the server reports that it is ready.
func (s *server) serves(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		r, err := grpc_health_v1.NewHealthClient(s.conns[0]).Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
		if err == nil && r.Status == grpc_health_v1.HealthCheckResponse_SERVING {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it does not serve: %w", errors.Join(ctx.Err(), err))
		case <-s.process.Done():
			return errors.New("it has ended")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *server) stop() {
	for _, conn := range s.conns {
		conn.Close()
	}
	if s.process != nil {
		s.process.Kill()
	}
	if s.redis != nil {
		_ = s.redis.Close() // the measurement is complete
	}
}

// A cpuTime is consumed processor time.
type cpuTime struct{ server, redis time.Duration }

func (s *server) used() (u cpuTime, err error) {
	if u.server, err = processorTime(s.process.Pid()); err != nil {
		return u, err
	}
	u.redis, err = processorTime(s.redis.Pid())
	return u, err
}

// processorTime returns what a process has used so far, in user mode and in the kernel.
func processorTime(pid int) (time.Duration, error) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux there is
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	// pid (name) state ppid ... utime is the 14th field, stime the 15th; the name may hold spaces.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("processor time: %q is no stat of a process", text)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick, err
}

// freeAddr returns an unused address.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// build builds both programs into the directory, each with the versions of its own module.
func build(ctx context.Context, dir string) error {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/penstock-io/penstock").Output()
	if err != nil {
		return fmt.Errorf("find the product's source: %w", err)
	}
	source := strings.TrimSpace(string(root))
	for _, args := range [][]string{
		{"-C", source, "-trimpath", "-o", filepath.Join(dir, "penstock"), "./cmd/penstock"},
		{"-C", filepath.Join(source, "bench", "envoy", "ratelimit"), "-trimpath", "-o", filepath.Join(dir, "ratelimit"), "github.com/envoyproxy/ratelimit/src/service_cmd"},
	} {
		cmd := exec.CommandContext(ctx, "go", append([]string{"build"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", args[len(args)-1], err, out)
		}
	}
	return nil
}
