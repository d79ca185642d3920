package admission

import (
	"context"
	"errors"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

type csr = certificatesv1.CertificateSigningRequest

// alice is the user in the tests.
var alice = &user.DefaultInfo{Name: "alice", Groups: []string{"system:authenticated"}}

// signedBy returns a request for the signer.
func signedBy(signer string) *csr {
	return &csr{
		ObjectMeta: metav1.ObjectMeta{Name: "test"},
		Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: signer},
	}
}

// update returns alice's update of a request through a subresource.
func update(subresource string, obj, old runtime.Object) admission.Attributes {
	return attributes(admission.Update, subresource, obj, old, false)
}

func attributes(operation admission.Operation, subresource string, obj, old runtime.Object, dryRun bool) admission.Attributes {
	var options runtime.Object = &metav1.UpdateOptions{}
	if operation == admission.Create {
		options = &metav1.CreateOptions{}
	}
	resource := certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")
	kind := certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest")
	return admission.NewAttributesRecord(obj, old, kind, "", "test", resource, subresource, operation, options, dryRun, alice)
}

// asked is one call of an authorizer.
type asked = authorizer.AttributesRecord

// rules answers with the entry for the signer, and records the calls.
type rules struct {
	answers map[string]answer
	asked   []asked
}

type answer struct {
	decision authorizer.Decision
	err      error
}

var (
	yes       = answer{decision: authorizer.DecisionAllow}
	no        = answer{decision: authorizer.DecisionDeny}
	noOpinion = answer{decision: authorizer.DecisionNoOpinion}
	yesButErr = answer{decision: authorizer.DecisionAllow, err: errors.New("broken")}
)

func (r *rules) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	r.asked = append(r.asked, a.(asked))
	found, ok := r.answers[a.GetName()]
	if !ok {
		found = noOpinion
	}
	return found.decision, "", found.err
}

// validate runs one plugin as the chain does.
func validate(t testing.TB, plugin admission.Interface, a admission.Attributes) error {
	t.Helper()
	if !plugin.Handles(a.GetOperation()) {
		return nil
	}
	if mutating, ok := plugin.(admission.MutationInterface); ok {
		if err := mutating.Admit(context.Background(), a, nil); err != nil {
			return err
		}
	}
	return plugin.(admission.ValidationInterface).Validate(context.Background(), a, nil)
}

// checkForbidden compares the full text of a refusal; an empty detail means no
// refusal.
func checkForbidden(t testing.TB, err error, detail string) {
	t.Helper()
	if detail == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	want := `certificatesigningrequests.certificates.k8s.io "test" is forbidden: ` + detail
	if err == nil || !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
