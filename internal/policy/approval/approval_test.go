package approval_test

import (
	"crypto"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/approval"
)

type (
	csr       = certificatesv1.CertificateSigningRequest
	condition = certificatesv1.CertificateSigningRequestCondition
)

// wish is a request that a test is about to make. It begins as a node's
// request for itself.
type wish struct {
	subject  pki.Subject
	key      crypto.Signer
	usages   []certificatesv1.KeyUsage
	username string
	signer   string
}

func newWish(t *testing.T) *wish {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	return &wish{
		subject:  pki.Subject{CommonName: "system:node:n1", Organizations: []string{"system:nodes"}},
		key:      key,
		usages:   []certificatesv1.KeyUsage{"digital signature", "key encipherment", "client auth"},
		username: "system:node:n1",
		signer:   approval.SignerName,
	}
}

func (w *wish) request(t *testing.T) *csr {
	t.Helper()
	pem, err := pki.NewRequest(w.subject, w.key)
	if err != nil {
		t.Fatal(err)
	}
	return &csr{
		ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem, SignerName: w.signer, Usages: w.usages, Username: w.username,
		},
	}
}

func usages(names ...certificatesv1.KeyUsage) func(*wish) {
	return func(w *wish) { w.usages = names }
}

func TestRecognise(t *testing.T) {
	const (
		self  = "selfnodeclient nodeclient"
		other = "nodeclient"
	)
	stranger := func(w *wish) { w.username = "system:bootstrap:abcdef" }
	tests := []struct {
		reason string
		change func(*wish)
		strict bool
		want   string
		err    string
	}{
		{reason: "a node for itself", want: self},
		{reason: "without key encipherment", change: usages("digital signature", "client auth"), want: self},
		{reason: "somebody for a node", change: stranger, want: other},
		{reason: "somebody for a node, without key encipherment", change: func(w *wish) {
			stranger(w)
			usages("client auth", "digital signature")(w)
		}, want: other},
		{reason: "the user is compared to the letter", change: func(w *wish) { w.username = "system:node:N1" }, want: other},
		{reason: "as in Kubernetes, only the prefix of the name counts", change: func(w *wish) { w.subject.CommonName = "system:node:" }, want: other},

		{reason: "not named as a node", change: func(w *wish) { w.subject.CommonName = "n1" }, err: "subject common name does not begin with system:node:"},
		{reason: "not even of the user's own name", change: func(w *wish) {
			w.subject.CommonName, w.username = "alice", "alice"
		}, err: "subject common name does not begin with system:node:"},
		{reason: "no organization", change: func(w *wish) { w.subject.Organizations = nil }, err: "subject organization is not system:nodes"},
		{reason: "wrong organization", change: func(w *wish) { w.subject.Organizations = []string{"system:masters"} }, err: "subject organization is not system:nodes"},
		{reason: "one organization more", change: func(w *wish) {
			w.subject.Organizations = append(w.subject.Organizations, "system:masters")
		}, err: "subject organization is not system:nodes"},
		{reason: "a server too", change: usages("digital signature", "key encipherment", "client auth", "server auth"), err: "usages did not match [client auth digital signature key encipherment]"},
		{reason: "a name besides", change: func(w *wish) { w.subject.DNSNames = []string{"n1"} }, err: "DNS subjectAltNames are not allowed"},
		{reason: "a foreign signer", change: func(w *wish) { w.signer = "example.com/signer" }, err: "requests to example.com/signer are never approved automatically"},
		{reason: "the signer of serving certificates", change: func(w *wish) { w.signer = "kubernetes.io/kubelet-serving" }, err: "requests to kubernetes.io/kubelet-serving are never approved automatically"},
		{reason: "the signer of any client", change: func(w *wish) { w.signer = "kubernetes.io/kube-apiserver-client" }, err: "requests to kubernetes.io/kube-apiserver-client are never approved automatically"},

		{reason: "strictly, good", strict: true, want: self},
		{reason: "strictly, a name of domains", strict: true, change: func(w *wish) { w.subject.CommonName = "system:node:n1.example.com" }, want: other},
		{reason: "strictly, no name", strict: true, change: func(w *wish) { w.subject.CommonName = "system:node:" }, err: "subject common name has no valid node name after system:node:"},
		{reason: "strictly, a name that no Node has", strict: true, change: func(w *wish) { w.subject.CommonName = "system:node:N_1" }, err: "subject common name has no valid node name after system:node:"},
		{reason: "strictly, the shape is told of first", strict: true, change: func(w *wish) {
			w.subject = pki.Subject{CommonName: "system:node:"}
		}, err: "subject organization is not system:nodes"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWish(t)
			if tc.change != nil {
				tc.change(w)
			}
			known, err := approval.Policy{Strict: tc.strict}.Recognise(w.request(t))
			assertError(t, err, tc.err)
			if got := names(known); got != tc.want {
				t.Errorf("recognised by %q, want %q", got, tc.want)
			}
		})
	}
}

func TestRecogniseUnreadable(t *testing.T) {
	for _, request := range []string{"", "junk", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"} {
		c := newWish(t).request(t)
		c.Spec.Request = []byte(request)
		known, err := approval.Policy{}.Recognise(c)
		assertError(t, err, "parsing the certificate request: ")
		if len(known) > 0 {
			t.Errorf("%q is recognised by %s", request, names(known))
		}
	}
}

// assertError wants an error that begins as given; none if that is empty.
func assertError(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

func names(known []approval.Recogniser) string {
	var names []string
	for _, r := range known {
		names = append(names, r.Name)
	}
	return strings.Join(names, " ")
}

func TestWaits(t *testing.T) {
	tests := []struct {
		reason string
		change func(*csr)
		want   bool
	}{
		{reason: "new", change: func(*csr) {}, want: true},
		{reason: "of another signer", change: func(c *csr) { c.Spec.SignerName = "kubernetes.io/kubelet-serving" }},
		{reason: "approved", change: conditions(condition{Type: "Approved", Status: "True"})},
		{reason: "denied", change: conditions(condition{Type: "Denied", Status: "True"})},
		{reason: "approved counts by its presence", change: conditions(condition{Type: "Approved", Status: "False"})},
		{reason: "failed", change: conditions(condition{Type: "Failed", Status: "True"})},
		{reason: "failed without status", change: conditions(condition{Type: "Failed"})},
		{reason: "not failed after all", change: conditions(condition{Type: "Failed", Status: "False"}), want: true},
		{reason: "a condition of others", change: conditions(condition{Type: "Seen", Status: "True"}), want: true},
		{reason: "issued", change: func(c *csr) { c.Status.Certificate = []byte("x") }},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			c := &csr{Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: approval.SignerName}}
			tc.change(c)
			if got := approval.Waits(c); got != tc.want {
				t.Errorf("waits: %v, want %v", got, tc.want)
			}
		})
	}
}

func conditions(list ...condition) func(*csr) {
	return func(c *csr) { c.Status.Conditions = list }
}

// What is asked is Kubernetes' own question, so that its RBAC rules answer it.
func TestPermission(t *testing.T) {
	c := newWish(t).request(t)
	c.Spec.UID, c.Spec.Groups = "uid-1", []string{"system:nodes", "system:authenticated"}
	known, err := approval.Policy{}.Recognise(c)
	if err != nil {
		t.Fatal(err)
	}
	want := authorizationv1.SubjectAccessReviewSpec{
		User: "system:node:n1", UID: "uid-1", Groups: c.Spec.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "create", Group: "certificates.k8s.io", Version: "*",
			Resource: "certificatesigningrequests", Subresource: "selfnodeclient",
		},
	}
	if diff := cmp.Diff(want, known[0].Permission(c)); diff != "" {
		t.Errorf("without extra (-want +got):\n%s", diff)
	}
	c.Spec.Extra = map[string]certificatesv1.ExtraValue{"example.com/a": {"x", "y"}}
	want.Extra = map[string]authorizationv1.ExtraValue{"example.com/a": {"x", "y"}}
	want.ResourceAttributes.Subresource = "nodeclient"
	if diff := cmp.Diff(want, known[1].Permission(c)); diff != "" {
		t.Errorf("with extra (-want +got):\n%s", diff)
	}
}

func TestApprove(t *testing.T) {
	c := newWish(t).request(t)
	c.Status.Conditions = []condition{{Type: "Seen", Status: "True"}}
	known, err := approval.Policy{}.Recognise(c)
	if err != nil {
		t.Fatal(err)
	}
	for i, message := range []string{
		"Auto approving self kubelet client certificate after SubjectAccessReview.",
		"Auto approving kubelet client certificate after SubjectAccessReview.",
	} {
		want := c.DeepCopy()
		want.Status.Conditions = append(want.Status.Conditions,
			condition{Type: "Approved", Status: "True", Reason: "AutoApproved", Message: message})
		if diff := cmp.Diff(want, known[i].Approve(c)); diff != "" {
			t.Errorf("by %s (-want +got):\n%s", known[i].Name, diff)
		}
	}
	if len(c.Status.Conditions) != 1 {
		t.Error("the original was written to")
	}
}

func TestNotPermitted(t *testing.T) {
	self, other := newWish(t), newWish(t)
	other.username = "mallory\n"
	tests := []struct {
		reason string
		wish   *wish
		want   string
	}{
		{"the narrowest permission is advised", self, `user "system:node:n1" may not create certificatesigningrequests/selfnodeclient or certificatesigningrequests/nodeclient; ` +
			`to have such requests approved, bind ClusterRole system:certificates.k8s.io:certificatesigningrequests:selfnodeclient to the user or to a group of it`},
		{"names are quoted", other, `user "mallory\n" may not create certificatesigningrequests/nodeclient; ` +
			`to have such requests approved, bind ClusterRole system:certificates.k8s.io:certificatesigningrequests:nodeclient to the user or to a group of it`},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			known, err := approval.Policy{}.Recognise(tc.wish.request(t))
			if err != nil {
				t.Fatal(err)
			}
			refused := &approval.NotPermittedError{User: tc.wish.username, Recognisers: known}
			if diff := cmp.Diff(tc.want, refused.Error()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
