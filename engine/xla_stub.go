package engine

import (
	"context"

	"weft/fault"
)

func openXLA(context.Context, int, Options) (Engine, error) {
	return nil, fault.New(ErrUnavailable, nil, "not yet")
}
