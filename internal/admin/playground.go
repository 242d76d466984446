package admin

import (
	"errors"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/playground"
	"github.com/penstock-io/penstock/internal/wire"
)

// play decides arrivals by several limits side by side. It touches nothing that counts.
func (a *Admin) play(x *exchange) (any, error) {
	var game playground.Game
	if err := x.readDocument(&game); err != nil {
		return nil, err
	}
	end, err := a.begin(x.r.Context())
	if err != nil {
		return nil, err
	}
	defer end()
	played, err := playground.Play(x.r.Context(), &game, func() (playground.Store, error) { return a.Scratch() })
	if errors.Is(err, penstock.ErrInvalid) {
		return nil, mistaken([]wire.Mistake{{Message: err.Error()}})
	}
	return played, err
}
