package controllermanager

import (
	"testing"

	"github.com/certplane/certplane/internal/rights"
)

// Every controller that users can choose is listed once.
func TestPartsAreTheTable(t *testing.T) {
	type identity struct{ name, account string }
	added := map[identity]int{}
	for _, part := range parts {
		added[identity{part.Name, part.Account}]++
	}
	for _, c := range rights.Controllers() {
		id, want := identity{c.Name, c.Account}, 0
		if c.Chosen() {
			want = 1
		}
		if added[id] != want {
			t.Errorf("%s as %s is added %d times, want %d", c.Name, c.Account, added[id], want)
		}
		delete(added, id)
	}
	for id := range added {
		t.Errorf("%s as %s is not in the table of rights", id.name, id.account)
	}
}
