package admin

import (
	"errors"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/playground"
)

// maxGame bounds the bytes of a request to the playground: twice what the largest number of arrivals takes.
const maxGame = 1 << 20

// play decides arrivals by several limits side by side. It does not touch any real counter.
func (a *Admin) play(x *apiRequest) (any, error) {
	var game playground.Input
	if err := x.readUpTo(maxGame, &game); err != nil {
		return nil, err
	}
	played, err := playground.Play(x.r.Context(), &game, func() (playground.Store, error) { return a.Scratch() })
	if errors.Is(err, penstock.ErrInvalid) {
		return nil, mistake("", "%v", err)
	}
	return played, err
}
