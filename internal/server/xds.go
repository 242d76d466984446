package server

import (
	"os"
	"time"

	"github.com/penstock-io/penstock/internal/xdsconfig"
)

// How long a start waits for the management server. A node without a copy of earlier limits cannot limit without
// it, so it waits longer.
const xdsWait, xdsShortWait = time.Minute, 5 * time.Second

// openXDS connects to the management server.
func (s *Server) openXDS() (*xdsconfig.Source, error) {
	o := s.config.Rules.XDS.Options()
	o.Log, o.Wait = s.log.With("listener", "xds"), xdsWait
	if _, err := os.Stat(LastGoodFile(s.config)); err == nil || o.StartEmpty {
		o.Wait = xdsShortWait
	}
	source, err := xdsconfig.New(o)
	if err != nil {
		return nil, err
	}
	s.atEnd(source.Close)
	return source, nil
}
