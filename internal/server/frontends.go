package server

import (
	"context"

	"github.com/certplane/certplane/internal/frontend"
)

// frontEnds are what the server serves by HTTP. Those with a path are on the
// API's port, and its /readyz checks all of them.
func frontEnds(api func(context.Context) error) []frontend.FrontEnd {
	return []frontend.FrontEnd{
		{Name: "api", Serve: api},
	}
}
