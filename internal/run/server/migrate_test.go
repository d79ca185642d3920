package server

import (
	"testing"

	"github.com/certplane/certplane/internal/store/storerecord"
)

// Objects of a store of format 1 are found where Kubernetes has them, wherever
// the move was interrupted and even if another server wrote meanwhile.
func TestMoveToKubernetesKeys(t *testing.T) {
	c := startClaimStores(t).claim(t, "/registry")
	c.makePKI(t)
	for key, value := range map[string]string{
		"/nodes/n1": "node 1", "/nodes/n2": "node 2, former", "/minions/n2": "node 2, moved",
		"/services/ns/web": "web", "/services/specs/web": "web of the namespace specs", "/services/specs/ns/old": "stays",
		"/services/endpoints/ns/web": "not ours", "/nodesandmore/x": "not a node",
	} {
		c.put(t, key, value)
	}
	c.put(t, "/minions/n3", "node 3, moved")
	c.put(t, "/nodes/n3", "node 3, written later by an older server")
	c.put(t, "/nodes/n2", "node 2, former")
	c.put(t, "/minions/n2", "node 2, moved")
	for range 2 { // the second start finds nothing to do
		mustStart(t, c)
		for key, want := range map[string]string{
			"/nodes/n1": "", "/minions/n1": "node 1", "/nodes/n2": "", "/minions/n2": "node 2, moved",
			"/nodes/n3": "", "/minions/n3": "node 3, written later by an older server",
			"/services/ns/web": "", "/services/specs/ns/web": "web", "/services/specs/web": "",
			"/services/specs/specs/web": "web of the namespace specs", "/services/specs/ns/old": "stays",
			"/services/endpoints/ns/web": "not ours", "/nodesandmore/x": "not a node",
		} {
			if got := c.get(t, key); got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
	}
	record, err := c.records.Load(t.Context())
	if err != nil || record.Format != storerecord.Format {
		t.Errorf("the record is %+v, %v", record, err)
	}
	// An older server that still ran has written once more.
	c.put(t, "/nodes/late", "late")
	mustStart(t, c)
	if got := c.get(t, "/minions/late"); got != "late" {
		t.Errorf("what was written late is %q", got)
	}
}
