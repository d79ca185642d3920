package frontend

import (
	"github.com/certplane/certplane/internal/frontend/crlserver"
)

// openLists returns the front end of revocation lists.
func openLists(p Process, cfg Config) (FrontEnd, error) {
	if cfg.Lists == nil {
		return FrontEnd{}, nil
	}
	lists := *cfg.Lists
	lists.Now, lists.Metrics = p.Now, p.Metrics
	server, err := crlserver.New(lists)
	if err != nil {
		return FrontEnd{}, err
	}
	return FrontEnd{Serve: server.Serve}, nil
}
