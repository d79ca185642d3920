package server

import (
	"slices"
	"testing"

	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

// The table lists every controller of the standalone server, and no others.
func TestKeepersAreTheTable(t *testing.T) {
	keepers := keepers(nil, nil, nil, nil, lists{})
	for _, c := range rights.Controllers() {
		kept := slices.ContainsFunc(keepers, func(part controllermanager.Part) bool { return part.Name == c.Name })
		if kept != (c.Where == rights.OnlyServe || c.Where == rights.AlwaysInServe) {
			t.Errorf("%s: kept %t, runs %s", c.Name, kept, c.Where)
		}
	}
}
