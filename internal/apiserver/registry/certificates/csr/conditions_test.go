package csr

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/rest"
)

// bare is a condition as clients send it, without times.
func bare(t certificatesv1.RequestConditionType) condition {
	return condition{Type: t, Status: "True", Reason: "sent"}
}

func times(c condition, update, transition metav1.Time) condition {
	c.LastUpdateTime, c.LastTransitionTime = update, transition
	return c
}

func TestStatusUpdateKeepsDecisions(t *testing.T) {
	for _, tc := range []struct {
		reason            string
		stored, sent      []condition
		wantV1, wantBeta1 []condition // wantBeta1: nil if the same
	}{
		{
			reason: "nothing changes",
			stored: []condition{decided("Approved", "a")},
			sent:   []condition{decided("Approved", "a")},
			wantV1: []condition{decided("Approved", "a")},
		},
		{
			reason: "stored decisions come back pair by pair, a failure gets its times",
			stored: []condition{decided("Denied", "d1"), decided("Approved", "a1"), decided("Denied", "d2"), decided("Approved", "a2")},
			sent:   []condition{bare("Approved"), bare("Failed"), bare("Denied"), bare("Approved"), bare("Denied")},
			wantV1: []condition{decided("Approved", "a1"), times(bare("Failed"), stamped, stamped),
				decided("Denied", "d1"), decided("Approved", "a2"), decided("Denied", "d2")},
		},
		{
			reason:    "an approval more stays for validation to refuse; v1beta1 ignores all conditions instead",
			stored:    []condition{decided("Custom", "c")},
			sent:      []condition{bare("Approved"), bare("Failed")},
			wantV1:    []condition{times(bare("Approved"), stamped, stamped), times(bare("Failed"), stamped, stamped)},
			wantBeta1: []condition{decided("Custom", "c")},
		},
		{
			reason:    "a denial less does so too, and the approvals are still restored",
			stored:    []condition{decided("Approved", "a"), decided("Denied", "d")},
			sent:      []condition{bare("Approved")},
			wantV1:    []condition{decided("Approved", "a")},
			wantBeta1: []condition{decided("Approved", "a"), decided("Denied", "d")},
		},
		{
			reason:    "one decision more does not open the other one",
			stored:    []condition{decided("Denied", "d")},
			sent:      []condition{bare("Approved"), bare("Denied")},
			wantV1:    []condition{times(bare("Approved"), stamped, stamped), decided("Denied", "d")},
			wantBeta1: []condition{decided("Denied", "d")},
		},
		{
			reason: "a decision stored without times gets them",
			stored: []condition{bare("Approved")},
			sent:   []condition{bare("Approved")},
			wantV1: []condition{times(bare("Approved"), stamped, stamped)},
		},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			wants := map[string][]condition{"v1": tc.wantV1, "v1beta1": tc.wantBeta1}
			if tc.wantBeta1 == nil {
				wants["v1beta1"] = tc.wantV1
			}
			for version, want := range wants {
				old := newCSR(t, conditions(tc.stored...))
				pristine := old.DeepCopy()
				obj := newCSR(t, conditions(append([]condition(nil), tc.sent...)...))
				statusStrategy{newStrategy(t)}.PrepareForUpdate(in(version), obj, old)
				if diff := cmp.Diff(want, obj.Status.Conditions); diff != "" {
					t.Errorf("%s: conditions (-want +got):\n%s", version, diff)
				}
				if diff := cmp.Diff(pristine, old); diff != "" {
					t.Errorf("%s: the stored object changed (-want +got):\n%s", version, diff)
				}
			}
		})
	}
}

func TestTimesOfConditions(t *testing.T) {
	later := metav1.NewTime(now.AddDate(1, 0, 0))
	none := metav1.Time{}
	flipped := condition{Type: "Custom", Status: "False", Reason: "sent"}

	for _, tc := range []struct {
		reason             string
		stored, sent, want []condition
	}{
		{"a new condition starts now", nil,
			[]condition{bare("Custom")},
			[]condition{times(bare("Custom"), stamped, stamped)}},
		{"times that are sent are kept, even future ones", nil,
			[]condition{times(bare("Custom"), later, earlier)},
			[]condition{times(bare("Custom"), later, earlier)}},
		{"an edit does not advance a time that is sent along", []condition{decided("Custom", "stored")},
			[]condition{times(bare("Custom"), earlier, earlier)},
			[]condition{times(bare("Custom"), earlier, earlier)}},
		{"the transition is the stored one while the status stays", []condition{decided("Custom", "stored")},
			[]condition{bare("Custom")},
			[]condition{times(bare("Custom"), stamped, earlier)}},
		{"a flipped status transitions now", []condition{decided("Custom", "stored")},
			[]condition{flipped},
			[]condition{times(flipped, stamped, stamped)}},
		{"a stale transition that is sent is kept although the status flips", []condition{decided("Custom", "stored")},
			[]condition{times(flipped, none, earlier)},
			[]condition{times(flipped, stamped, earlier)}},
		{"the first stored transition that is known counts",
			[]condition{bare("Custom"), decided("Custom", "stored"), times(bare("Custom"), none, later)},
			[]condition{bare("Custom")},
			[]condition{times(bare("Custom"), stamped, earlier)}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			base := newStrategy(t)
			for endpoint, s := range map[string]rest.RESTUpdateStrategy{"status": statusStrategy{base}, "approval": approvalStrategy{base}} {
				obj := newCSR(t, conditions(append([]condition(nil), tc.sent...)...))
				s.PrepareForUpdate(in("v1"), obj, newCSR(t, conditions(tc.stored...)))
				if diff := cmp.Diff(tc.want, obj.Status.Conditions); diff != "" {
					t.Errorf("%s: conditions (-want +got):\n%s", endpoint, diff)
				}
			}
		})
	}
}
