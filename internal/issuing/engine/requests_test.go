package engine

import (
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/requests"
)

// A request that waits for a decision is looked at once, and again when it is
// decided or replaced by another one with its name.
func TestActionable(t *testing.T) {
	ready := cmv1.CertificateRequestConditionReady
	undecided, approved, other, issued := &cmv1.CertificateRequest{}, &cmv1.CertificateRequest{}, &cmv1.CertificateRequest{}, &cmv1.CertificateRequest{}
	other.UID = "other"
	certmanager.SetRequestCondition(approved, cmv1.CertificateRequestConditionApproved, cmmeta.ConditionTrue, "", "", metav1.Time{})
	certmanager.SetRequestCondition(issued, ready, cmmeta.ConditionTrue, cmv1.CertificateRequestReasonIssued, "", metav1.Time{})
	look := (&Requests[*cmv1.CertificateRequest]{Due: requests.Due}).Actionable()
	if !look.Create(event.CreateEvent{Object: undecided}) || look.Create(event.CreateEvent{Object: issued}) {
		t.Error("when it appears")
	}
	for reason, tc := range map[string]struct {
		old, cr *cmv1.CertificateRequest
		want    bool
	}{
		"labelled": {undecided, undecided, false},
		"approved": {undecided, approved, true},
		"replaced": {undecided, other, true},
		"waiting":  {approved, approved, true},
		"issued":   {approved, issued, false},
	} {
		if got := look.Update(event.UpdateEvent{ObjectOld: tc.old, ObjectNew: tc.cr}); got != tc.want {
			t.Errorf("%s: %v", reason, got)
		}
	}
	atOwnPace := (&Requests[*cmv1.CertificateRequest]{Due: requests.Due, OwnPace: true}).Actionable()
	if atOwnPace.Update(event.UpdateEvent{ObjectOld: approved, ObjectNew: approved}) || !atOwnPace.Update(event.UpdateEvent{ObjectOld: undecided, ObjectNew: approved}) {
		t.Error("a request that waits for its certificate is tried again at other times than its own")
	}
}
