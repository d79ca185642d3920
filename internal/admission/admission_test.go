package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/admission"

	"github.com/certplane/certplane/internal/pki"
)

// Each plugin answers for one refusal here: switching it off lets that
// through, and nothing else.
func TestPluginsAreSwitchedByName(t *testing.T) {
	issued := signedBy("abc.com/xyz")
	issued.Status.Certificate = []byte("x")
	masters := signedBy("kubernetes.io/kube-apiserver-client")
	masters.Spec.Request = newRequest(t, pki.Subject{Organizations: []string{"system:masters"}})

	refusals := map[string]admission.Attributes{
		"CertificateApproval":           update("approval", signedBy("abc.com/xyz"), signedBy("abc.com/xyz")),
		"CertificateSigning":            update("status", issued, signedBy("abc.com/xyz")),
		"CertificateSubjectRestriction": attributes(admission.Create, "", masters, nil, false),
	}
	check := func(t *testing.T, disabled ...string) {
		t.Helper()
		// Those of the library need a server around them.
		extensions := []string{"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook"}
		chain, err := New(Config{DisabledPlugins: append(extensions, disabled...)}, &rules{})
		if err != nil {
			t.Fatal(err)
		}
		for plugin, a := range refusals {
			want := true
			for _, name := range disabled {
				want = want && name != plugin
			}
			if got := validate(t, chain, a) != nil; got != want {
				t.Errorf("without %v: %s refuses: %v, want %v", disabled, plugin, got, want)
			}
		}
	}
	check(t)
	for plugin := range refusals {
		check(t, plugin)
	}
	check(t, "CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction")
}

// The order is what clients see when several plugins would refuse.
func TestPluginOrder(t *testing.T) {
	want := []string{
		"CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction",
		"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook",
	}
	var got []string
	for _, p := range plugins() {
		got = append(got, p.name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
}

func TestUnknownPlugin(t *testing.T) {
	_, err := New(Config{DisabledPlugins: []string{"CertificateSigning", "certificateapproval"}}, &rules{})
	const want = `admission.disabledPlugins[1]: unknown name "certificateapproval"; known: CertificateApproval, CertificateSigning, CertificateSubjectRestriction, MutatingAdmissionPolicy, MutatingAdmissionWebhook, ValidatingAdmissionPolicy, ValidatingAdmissionWebhook`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestNoAuthorizer(t *testing.T) {
	if _, err := New(Config{}, nil); err == nil {
		t.Error("nobody to ask, yet no error")
	}
}

// A call without a user fails closed.
func TestNoUser(t *testing.T) {
	everything := &rules{answers: map[string]answer{"abc.com/xyz": yes}}
	if (signers{everything}).allow(t.Context(), nil, "sign", "abc.com/xyz") {
		t.Error("nobody may sign")
	}
}
