package admin

import (
	"errors"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/playground"
	"github.com/penstock-io/penstock/internal/wire"
)

// maxGame is how many bytes a game may have: the most arrivals fit twice.
const maxGame = 1 << 20

// play decides arrivals by several limits side by side. It touches nothing that counts.
func (a *Admin) play(x *exchange) (any, error) {
	end, err := x.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	var game playground.Game
	if err := x.readUpTo(maxGame, &game); err != nil {
		return nil, err
	}
	played, err := playground.Play(x.r.Context(), &game, func() (playground.Store, error) { return a.Scratch() })
	if errors.Is(err, penstock.ErrInvalid) {
		return nil, mistaken([]wire.Mistake{{Message: err.Error()}})
	}
	return played, err
}
