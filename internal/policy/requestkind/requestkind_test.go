package requestkind_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
)

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// Each row is complete, found by all that names it, and takes an empty object of its type.
func TestRows(t *testing.T) {
	for _, k := range requestkind.All {
		object := k.New()
		if requestkind.Of(object) != k || requestkind.Named(k.Name) != k || requestkind.OfResource(k.Resource) != k {
			t.Errorf("%s is not found", k.Name)
		}
		if got := k.View(object); got.Kind != k.Name || got.Object != metav1.Object(object) {
			t.Errorf("%s: the view is that of a %s", k.Name, got.Kind)
		}
		if len(k.Conditions(object)) > 0 || !k.GrantedAt(object).IsZero() || len(k.Certificate(object)) > 0 || len(k.CA(object)) > 0 {
			t.Errorf("%s: an empty object has an answer", k.Name)
		}
		k.Signer(object)
		content := k.Content(object, request.Requester{})
		if of := content.GetObjectKind().GroupVersionKind(); of.Kind != string(k.Name) || of.Version != k.Version || of.Group != k.Resource.Group {
			t.Errorf("%s: the content is a %s", k.Name, of)
		}
		if items := requestkind.Items[requestkind.Object](k.NewList()); len(items) > 0 {
			t.Errorf("%s: an empty list has %d items", k.Name, len(items))
		}
		if k.Refuses(quorum.Condition{Type: k.Granted, Status: "True"}) || !k.Refuses(quorum.Condition{Type: requestkind.Denied, Status: "True"}) {
			t.Errorf("%s: what is denied is refused, and what is granted is not", k.Name)
		}
		if requestkind.Undecided(object) != (k.Decision != nil) {
			t.Errorf("%s: a new request is undecided if somebody decides", k.Name)
		}
	}
	if requestkind.Of(nil) != nil || requestkind.Of(&certificatesv1.ClusterTrustBundle{}) != nil || requestkind.Named(v1alpha1.RequestKind("Pod")) != nil {
		t.Error("something else is a kind of requests")
	}
}

// A request is decided once. Other conditions are replaced.
func TestDecide(t *testing.T) {
	for _, k := range requestkind.All {
		if k.Decision == nil {
			continue
		}
		for _, first := range []string{requestkind.Approved, requestkind.Denied} {
			for _, second := range []string{requestkind.Approved, requestkind.Denied} {
				object := k.New()
				object.SetName("a")
				for _, message := range []string{"2 more", "1 more"} {
					k.Decision.Set(object, quorum.Condition{Type: quorum.AwaitingApproval, Status: "True", Message: message}, now)
				}
				if err := k.Decide(object, quorum.Condition{Type: first, Status: "True", Reason: "Me"}, now); err != nil || requestkind.Undecided(object) {
					t.Fatalf("%s: %s: %v", k.Name, first, err)
				}
				err := k.Decide(object, quorum.Condition{Type: second, Status: "True", Reason: "Other"}, now)
				if want := string(k.Name) + ` "a" is ` + first + ` already, with reason "Me"`; !errors.Is(err, requestkind.ErrDecided) || !strings.Contains(err.Error(), want) {
					t.Errorf("%s after %s: %v", second, first, err)
				}
				got := k.Conditions(object)
				if len(got) != 2 || got[0].Message != "1 more" || got[1].Reason != "Me" {
					t.Errorf("%s after %s: %v", second, first, got)
				}
				if granted := !k.GrantedAt(object).IsZero(); k.Name == v1alpha1.CertificateRequests && granted != (first == requestkind.Approved) {
					t.Errorf("%s of a %s: granted %v", first, k.Name, granted)
				}
			}
		}
	}
}
