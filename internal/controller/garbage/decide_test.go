package garbage

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestDecide(t *testing.T) {
	owners := func(states ...ownerState) map[types.UID]ownerState {
		all := map[types.UID]ownerState{}
		for i, state := range states {
			all[types.UID([]string{"a", "b", "c"}[i])] = state
		}
		return all
	}
	plain, blocking, busy := dependent{uid: "plain"}, dependent{uid: "blocking", blocks: true}, dependent{uid: "busy", foreground: true}
	const background, foreground, orphan = metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan
	for _, test := range []struct {
		reason string
		facts  facts
		want   verdict
	}{
		{"nobody owns it", facts{}, verdict{action: keep}},
		{"its owner is there", facts{owners: owners(present)}, verdict{action: keep}},
		{"nobody can tell about its owner", facts{owners: owners(unknown)}, verdict{action: keep}},
		{"its owner is gone", facts{owners: owners(absent)}, verdict{action: collect, policy: background}},
		{"all its owners are gone", facts{owners: owners(absent, absent)}, verdict{action: collect, policy: background}},
		{"one of its owners is gone", facts{owners: owners(absent, present)}, verdict{action: detach, lost: []types.UID{"a"}}},
		{"one is gone and one cannot be told", facts{owners: owners(absent, unknown)}, verdict{action: detach, lost: []types.UID{"a"}}},
		{"one waits for it, another keeps it", facts{owners: owners(waiting, present)}, verdict{action: detach, lost: []types.UID{"a"}}},
		{"its owner waits for it", facts{owners: owners(waiting)}, verdict{action: collect, policy: background}},
		{"its owner waits for it, and so do others for theirs", facts{owners: owners(waiting), dependents: []dependent{plain}}, verdict{action: collect, policy: foreground}},
		{"it waits for what may wait for it", facts{owners: owners(waiting), dependents: []dependent{busy}}, verdict{action: collect, policy: foreground, unblock: true}},
		{"gone owners do not wait for dependents", facts{owners: owners(absent), dependents: []dependent{plain}}, verdict{action: collect, policy: background}},
		{"its finalizer says how", facts{owners: owners(absent), orphan: true}, verdict{action: collect, policy: orphan}},
		{"its other finalizer says how", facts{owners: owners(absent), foreground: true}, verdict{action: collect, policy: foreground}},
		{"it is on its way", facts{owners: owners(absent), deleting: true}, verdict{action: keep}},
		{"it waits for dependents that are gone", facts{deleting: true, foreground: true}, verdict{action: finish}},
		{"it waits for nobody who wants it to", facts{deleting: true, foreground: true, dependents: []dependent{plain}}, verdict{action: finish}},
		{"it waits for some", facts{deleting: true, foreground: true, dependents: []dependent{plain, blocking}}, verdict{action: deleteDependents, dependents: []types.UID{"blocking"}}},
		{"it leaves its dependents alone", facts{deleting: true, orphan: true, dependents: []dependent{plain, blocking}}, verdict{action: orphanDependents, dependents: []types.UID{"plain", "blocking"}}},
		{"it has no dependents to leave", facts{deleting: true, orphan: true}, verdict{action: orphanDependents}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			got := decide(test.facts)
			slices.Sort(got.lost)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(verdict{})); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}
