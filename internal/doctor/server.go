package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock/internal/redisdial"
	"github.com/penstock-io/penstock/internal/secret"
)

// A redisServer is one server, queried directly.
type redisServer struct {
	address string
	client  rueidis.Client
	timeout time.Duration

	kind, version, mode, role string // as the server reports them

	skew  time.Duration
	timed bool // the skew is known
}

// An identity is the user to connect as.
type identity struct {
	username string
	password secret.Text
	tls      *tls.Config
}

// dialServer connects to one server and reads its HELLO reply, which needs no more rights than any client has.
func dialServer(ctx context.Context, address string, as identity, timeout time.Duration) (*redisServer, error) {
	option := rueidis.ClientOption{
		InitAddress: []string{address}, ForceSingleClient: true,
		Username: as.username, Password: string(as.password), TLSConfig: as.tls,
		ConnWriteTimeout: timeout, DisableRetry: true, DisableCache: true, ClientSetInfo: rueidis.DisableClientSetInfo,
	}
	option.Dialer.Timeout = timeout
	client, err := redisdial.NewClient(option, redisdial.Limits{Bytes: 4 << 20, Elements: 256 << 10})
	if err != nil {
		return nil, err
	}
	s := &redisServer{address: address, client: client, timeout: timeout}
	said, err := s.do(ctx, "HELLO", "3").AsMap()
	if err != nil {
		client.Close()
		return nil, err
	}
	for name, to := range map[string]*string{"server": &s.kind, "version": &s.version, "mode": &s.mode, "role": &s.role} {
		message := said[name]
		*to, _ = message.ToString() // a missing value stays empty
	}
	return s, nil
}

func (s *redisServer) close() { s.client.Close() }

func (s *redisServer) do(ctx context.Context, words ...string) rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.client.Do(ctx, s.client.B().Arbitrary(words...).Build())
}

// mayNot reports whether an error means that the user lacks the right.
func mayNot(err error) bool {
	said, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(said.Error(), "NOPERM")
}

// info returns a section of INFO, by name.
func (s *redisServer) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := s.do(ctx, "INFO", section).ToString()
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			found[name] = value
		}
	}
	return found, nil
}

var errNotTold = errors.New("the server does not tell")

// setting returns the value of a parameter of the server.
func (s *redisServer) setting(ctx context.Context, name string) (string, error) {
	found, err := s.do(ctx, "CONFIG", "GET", name).AsStrMap()
	if err != nil {
		return "", err
	}
	value, ok := found[name]
	if !ok {
		return "", errNotTold
	}
	return value, nil
}

// atLeast reports whether the version is major.minor or later.
func (s *redisServer) atLeast(major, minor int) bool {
	first, rest, _ := strings.Cut(s.version, ".")
	second, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(first)
	b, _ := strconv.Atoi(second)
	return err == nil && (a > major || a == major && b >= minor)
}

// measureSkew measures how far the server's clock is ahead of this machine's. It uses the fastest of a few
// requests, because the server's time was read at an unknown moment between request and response.
func (s *redisServer) measureSkew(ctx context.Context) (within time.Duration, err error) {
	const questions = 5
	for range questions {
		sent := time.Now()
		reply, err := s.do(ctx, "TIME").AsStrSlice()
		heard := time.Now()
		if err != nil {
			return 0, err
		}
		if len(reply) != 2 {
			return 0, errNotTold
		}
		seconds, errS := strconv.ParseInt(reply[0], 10, 64)
		micros, errM := strconv.ParseInt(reply[1], 10, 64)
		if err := errors.Join(errS, errM); err != nil {
			return 0, err
		}
		if trip := heard.Sub(sent); !s.timed || trip/2 < within {
			within = trip / 2
			s.skew = time.Unix(seconds, micros*1000).Sub(sent.Add(within))
			s.timed = true
		}
	}
	return within, nil
}
