package grpcapi

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/penstock-io/penstock/internal/connlimit"
)

// connCredentials do not secure anything: they give interceptors the connection of a request.
type connCredentials struct {
	credentials.TransportCredentials
}

func newConnCredentials() connCredentials { return connCredentials{insecure.NewCredentials()} }

func (connCredentials) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c, connInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}, c}, nil
}

type connInfo struct {
	credentials.CommonAuthInfo
	conn net.Conn
}

func (connInfo) AuthType() string { return "insecure" }

// connOf returns the connection of a request, or nil if it is unknown.
func connOf(ctx context.Context) net.Conn {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, _ := p.AuthInfo.(connInfo)
	return info.conn
}

// A gate checks every request when its headers have arrived.
type gate struct{ maxDuration time.Duration }

// enter refuses requests on connections in the listener's reserve, except health checks. It also ends requests that
// take too long, including those not completely received by then. Only Watch, of the health service, may take as long
// as the connection lasts.
func (g gate) enter(ctx context.Context, info *tap.Info) (context.Context, error) {
	if info.FullMethodName != grpc_health_v1.Health_Check_FullMethodName && !connlimit.Admitted(connOf(ctx)) {
		return nil, status.Error(codes.Unavailable, "the server has too many connections")
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= g.maxDuration || info.FullMethodName == grpc_health_v1.Health_Watch_FullMethodName {
		return ctx, nil
	}
	ctx, cancel := context.WithTimeout(ctx, g.maxDuration)
	_ = cancel // ctx ends with its parent, the stream's context
	return ctx, nil
}
