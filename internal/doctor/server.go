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
)

// A redisServer is one server, asked by itself.
type redisServer struct {
	address string
	client  rueidis.Client
	timeout time.Duration

	kind, version, mode, role string // as it introduces itself

	skew  time.Duration
	timed bool // the skew is known
}

// An identity is as whom to ask.
type identity struct {
	username, password string
	tls                *tls.Config
}

// dialServer connects to one server and has it introduce itself: that takes no more rights than
// any client needs.
func dialServer(ctx context.Context, address string, as identity, timeout time.Duration) (*redisServer, error) {
	option := rueidis.ClientOption{
		InitAddress: []string{address}, ForceSingleClient: true,
		Username: as.username, Password: as.password, TLSConfig: as.tls,
		ConnWriteTimeout: timeout, DisableRetry: true, DisableCache: true, ClientSetInfo: rueidis.DisableClientSetInfo,
	}
	redisdial.Unix(&option)
	option.Dialer.Timeout = timeout
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, err
	}
	s := &redisServer{address: address, client: client, timeout: timeout}
	said, err := s.ask(ctx, "HELLO", "3").AsMap()
	if err != nil {
		client.Close()
		return nil, err
	}
	for name, to := range map[string]*string{"server": &s.kind, "version": &s.version, "mode": &s.mode, "role": &s.role} {
		message := said[name]
		*to, _ = message.ToString() // one that does not say is asked no further
	}
	return s, nil
}

func (s *redisServer) close() { s.client.Close() }

func (s *redisServer) ask(ctx context.Context, words ...string) rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.client.Do(ctx, s.client.B().Arbitrary(words...).Build())
}

// mayNot tells whether an error is that the user has no right to ask.
func mayNot(err error) bool {
	said, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(said.Error(), "NOPERM")
}

// info returns a section of what the server says of itself, by name.
func (s *redisServer) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := s.ask(ctx, "INFO", section).ToString()
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
	found, err := s.ask(ctx, "CONFIG", "GET", name).AsStrMap()
	if err != nil {
		return "", err
	}
	value, ok := found[name]
	if !ok {
		return "", errNotTold
	}
	return value, nil
}

// atLeast compares the version with major.minor.
func (s *redisServer) atLeast(major, minor int) bool {
	first, rest, _ := strings.Cut(s.version, ".")
	second, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(first)
	b, _ := strconv.Atoi(second)
	return err == nil && (a > major || a == major && b >= minor)
}

// measureSkew finds out how far the server's clock is ahead of this machine's: by the quickest of a
// few questions, as the answer was given some time between sending and hearing.
func (s *redisServer) measureSkew(ctx context.Context) (within time.Duration, err error) {
	const questions = 5
	for range questions {
		sent := time.Now()
		reply, err := s.ask(ctx, "TIME").AsStrSlice()
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
