package xdsconfig

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/poll"
	"github.com/penstock-io/penstock/rules/live"
)

// TypeURL is the type of the resources.
const TypeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// Options configure a source.
type Options struct {
	Server   string // host:port
	NodeID   string // default "default"
	Metadata map[string]string
	Headers  map[string]string // sent with the stream

	// TLS is called for every connection, so that the next one uses renewed certificates. nil: the connection is not
	// encrypted.
	TLS func() (*tls.Config, error)

	MaxBytes int // of a message; default 16 MiB

	// Wait is how long Read waits for the first configuration.
	Wait time.Duration

	// StartEmpty makes Read return [live.ErrNoRules] instead of another error if nothing has arrived by then, so that
	// a node starts without limits.
	StartEmpty bool

	Log *slog.Logger // nil: nothing is logged
}

// A Source follows the configuration that a management server has for a node. It is a [live.Origin].
type Source struct {
	options Options
	started time.Time
	wake    poll.Waker

	mu      sync.Mutex
	news    chan struct{} // closed and replaced when something below changes
	text    *live.Text    // nil: nothing received yet
	verdict chan<- error  // for the result of the text; nil: already sent
	err     error         // why there is no connection

	close context.CancelFunc
	ended sync.WaitGroup
}

// New connects to the server, and reconnects whenever the connection is lost, until Close.
func New(o Options) (*Source, error) {
	if o.Server == "" {
		return nil, fmt.Errorf("xds: %w: no address of the management server", penstock.ErrInvalid)
	}
	o.NodeID = cmp.Or(o.NodeID, "default")
	o.MaxBytes = cmp.Or(o.MaxBytes, 16<<20)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Source{options: o, started: time.Now(), wake: poll.NewWaker(), news: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	s.close = cancel
	s.ended.Go(func() { poll.Listen(ctx, s.listen, func() {}, s.fail) })
	return s, nil
}

// Close ends the connection.
func (s *Source) Close() {
	s.close()
	s.ended.Wait()
}

func (s *Source) String() string {
	return fmt.Sprintf("xDS server %s (node %s)", s.options.Server, s.options.NodeID)
}

// Read returns the last configuration from the server. While there is no connection it returns the reason.
func (s *Source) Read(ctx context.Context) (*live.Text, error) {
	ctx, cancel := context.WithDeadline(ctx, s.started.Add(s.options.Wait))
	defer cancel()
	for {
		s.mu.Lock()
		text, isNew, err, news := s.text, s.verdict != nil, s.err, s.news
		s.mu.Unlock()
		switch {
		case text != nil && (isNew || err == nil):
			return text, nil
		case text != nil:
			return nil, s.wrap(err)
		}
		select {
		case <-news:
		case <-ctx.Done():
			if s.options.StartEmpty {
				err = errors.Join(live.ErrNoRules, err)
			}
			return nil, s.wrap(cmp.Or(err, errors.New("the server has not yet sent a configuration for this node")))
		}
	}
}

func (s *Source) wrap(err error) error {
	return fmt.Errorf("read the configuration from %v: %w", s, err)
}

// Watch calls changed for every configuration that arrives.
func (s *Source) Watch(ctx context.Context, changed func(), _ func(error)) {
	changed()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
			changed()
		}
	}
}

// Considered answers the server: a text is served if err is nil, and refused otherwise. It is for [live.Options].
func (s *Source) Considered(text *live.Text, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text == s.text && s.verdict != nil {
		s.verdict <- err // has room for one
		s.verdict = nil
	}
}

// set changes what Read returns.
func (s *Source) set(change func()) {
	s.mu.Lock()
	change()
	close(s.news)
	s.news = make(chan struct{})
	s.mu.Unlock()
	s.wake.Wake()
}

func (s *Source) fail(err error) {
	s.options.Log.Debug("no connection to the management server", "server", s.options.Server, "error", err)
	s.set(func() { s.err = err })
}

// listen follows the server on one connection until that is lost.
func (s *Source) listen(ctx context.Context, heard func()) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	for name, value := range s.options.Headers {
		ctx = metadata.AppendToOutgoingContext(ctx, name, value)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return err
	}
	answer := &discoveryv3.DiscoveryRequest{Node: s.node(), TypeUrl: TypeURL}
	for pause := minPause; ; {
		if err := stream.Send(answer); err != nil && !errors.Is(err, io.EOF) { // after io.EOF Recv has the reason
			return err
		}
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return errors.New("the server closed the stream")
		}
		if err != nil {
			return err
		}
		heard()
		refused, err := s.receive(ctx, response)
		if err != nil {
			return err
		}
		answer = &discoveryv3.DiscoveryRequest{TypeUrl: TypeURL, VersionInfo: answer.VersionInfo, ResponseNonce: response.Nonce}
		if refused == nil {
			pause, answer.VersionInfo = minPause, response.VersionInfo
			continue
		}
		answer.ErrorDetail = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: fmt.Sprintf("%.4096s", refused.Error())}
		if err := poll.Pause(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, maxPause)
	}
}

// Pauses before a refusal is sent: servers resend a refused configuration at once.
const minPause, maxPause = 50 * time.Millisecond, 5 * time.Second

// receive hands over a configuration and waits for its result.
func (s *Source) receive(ctx context.Context, r *discoveryv3.DiscoveryResponse) (refused, err error) {
	if r.TypeUrl != TypeURL {
		return nil, fmt.Errorf("the server sent resources of type %.128q, want %s", r.TypeUrl, TypeURL)
	}
	s.options.Log.Debug("configuration received", "server", s.options.Server, "version", r.VersionInfo, "resources", len(r.Resources))
	text := live.NewText(0, time.Now(), convert(r.Resources)...)
	verdict := make(chan error, 1)
	s.set(func() { s.text, s.verdict, s.err = text, verdict, nil })
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case refused = <-verdict:
		return refused, nil
	}
}

func (s *Source) dial() (*grpc.ClientConn, error) {
	secure := insecure.NewCredentials()
	if s.options.TLS != nil {
		config, err := s.options.TLS()
		if err != nil {
			return nil, err
		}
		secure = credentials.NewTLS(config)
	}
	return grpc.NewClient(s.options.Server,
		grpc.WithTransportCredentials(secure), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(s.options.MaxBytes)),
		// Keep-alive detects a connection that is lost silently. Servers refuse pings more often than every 5
		// minutes.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 6 * time.Minute, Timeout: 20 * time.Second}))
}

func (s *Source) node() *corev3.Node {
	fields := map[string]*structpb.Value{}
	for name, value := range s.options.Metadata {
		fields[name] = structpb.NewStringValue(value)
	}
	return &corev3.Node{Id: s.options.NodeID, UserAgentName: "penstock", Metadata: &structpb.Struct{Fields: fields}}
}
