package admission_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// signerName is a name for which no controller signs, so that requests stay as
// the tests leave them.
const signerName = "example.com/signer"

type csr = certificatesv1.CertificateSigningRequest

var (
	noUpdate = metav1.UpdateOptions{}
	dryRun   = metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}
)

// world is a server and its administrator.
type world struct {
	*apitest.Server
	admin kubernetes.Interface
}

func start(t *testing.T, options ...func(*server.Config)) world {
	t.Helper()
	s := apitest.Start(t, options...)
	return world{Server: s, admin: apitest.Client(t, s.Admin(t))}
}

func (w world) as(t *testing.T, user string) kubernetes.Interface {
	t.Helper()
	return apitest.Client(t, w.As(t, user))
}

// create stores an undecided request, with a condition that decides nothing.
func (w world) create(t *testing.T, name string) *csr {
	t.Helper()
	created := apitest.Create(t, w.admin, apitest.NewCSR(t, name, signerName, pki.Subject{CommonName: "somebody"}, apitest.NewKey(t)))
	return apitest.Decide(t, w.admin, created, "Noted")
}

func (w world) get(t *testing.T, name string) *csr {
	t.Helper()
	got, err := w.admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// wantForbidden checks everything that a client can read in a refusal.
func wantForbidden(t *testing.T, err error, name, detail string) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Errorf("got %v, want a refusal: %s", err, detail)
		return
	}
	got := status.Status()
	want := metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    403,
		Reason:  metav1.StatusReasonForbidden,
		Message: fmt.Sprintf("certificatesigningrequests.certificates.k8s.io %q is forbidden: %s", name, detail),
		Details: &metav1.StatusDetails{Group: "certificates.k8s.io", Kind: "certificatesigningrequests", Name: name},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
}

// rightsCase is a user with rights on signers, besides those on the resource.
type rightsCase struct {
	reason string
	user   string
	names  []string // resourceNames of the rule
	want   bool
}

// rightsCases apply both to approving and to signing.
var rightsCases = []rightsCase{
	{"the exact name", "exact", []string{signerName}, true},
	{"the domain", "domain", []string{"example.com/*"}, true},
	{"one of several names", "several", []string{"example.com/other", signerName}, true},
	{"a rule without names is about all signers", "all", nil, true},
	{"another name", "other", []string{"example.com/other"}, false},
	{"another domain", "other-domain", []string{"example.org/*"}, false},
	{"names are no patterns: part of a name", "prefix", []string{"example.com/sig*"}, false},
	{"names are no patterns: part of a domain", "subdomain", []string{"*.com/*"}, false},
	{"names are no patterns: everything", "star", []string{"*"}, false},
	{"the domain alone", "bare-domain", []string{"example.com"}, false},
}

// grantAll gives the users of rightsCases a verb on signers and update on a
// subresource.
func (w world) grantAll(t *testing.T, verb, subresource string) {
	t.Helper()
	for _, c := range rightsCases {
		w.Grant(t, verb+"-"+c.user,
			apitest.Allow("update patch", "certificatesigningrequests/"+subresource),
			apitest.Allow(verb, "signers", c.names...))
	}
}

func TestServer(t *testing.T) {
	w := start(t)
	t.Run("approval", w.testApproval)
	t.Run("signing", w.testSigning)
	t.Run("lifetime", w.testRequestLifetime)
	t.Run("subject", w.testSubject)
	t.Run("subject, beside the point", w.testSubjectBesides)
	t.Run("v1beta1", w.testOldVersion)
}

// testOldVersion: a check cannot be bypassed through another version.
func (w world) testOldVersion(t *testing.T) {
	w.Grant(t, "old", apitest.Allow("create", "certificatesigningrequests"),
		apitest.Allow("update", "certificatesigningrequests/approval certificatesigningrequests/status"))
	stored := w.create(t, "old")
	requests := w.as(t, "old").CertificatesV1beta1().CertificateSigningRequests()
	old, err := requests.Create(t.Context(), &certificatesv1beta1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "masters"},
		Spec: certificatesv1beta1.CertificateSigningRequestSpec{
			Request:    apitest.NewCSR(t, "", "", pki.Subject{Organizations: []string{"system:masters"}}, apitest.NewKey(t)).Spec.Request,
			SignerName: ptr.To(certificatesv1.KubeAPIServerClientSignerName),
		},
	}, metav1.CreateOptions{})
	wantForbidden(t, err, "masters", "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed")

	old.ObjectMeta = stored.ObjectMeta
	old.Status.Conditions = []certificatesv1beta1.CertificateSigningRequestCondition{{Type: "Approved"}}
	_, err = requests.UpdateApproval(t.Context(), old, noUpdate)
	wantForbidden(t, err, "old", `user not permitted to approve requests with signerName "example.com/signer"`)
	old.Status.Certificate = chain(t)
	_, err = requests.UpdateStatus(t.Context(), old, noUpdate)
	wantForbidden(t, err, "old", notPermittedToSign)
}

func (w world) testApproval(t *testing.T) {
	w.grantAll(t, "approve", "approval")
	for _, c := range rightsCases {
		t.Run(c.reason, func(t *testing.T) {
			stored := w.create(t, "approve-"+c.user)
			requests := w.as(t, "approve-"+c.user).CertificatesV1().CertificateSigningRequests()
			for _, options := range []metav1.UpdateOptions{dryRun, noUpdate} {
				_, err := requests.UpdateApproval(t.Context(), stored.Name, apitest.With(stored, "Approved"), options)
				if c.want && err != nil {
					t.Errorf("dry run %v: %v", options.DryRun, err)
				}
				if !c.want {
					wantForbidden(t, err, stored.Name, `user not permitted to approve requests with signerName "example.com/signer"`)
				}
			}
			if approved := len(w.get(t, stored.Name).Status.Conditions) == 2; approved != c.want {
				t.Errorf("approved: %v, want %v", approved, c.want)
			}
		})
	}

	t.Run("every write needs the right", w.testEveryApproval)
	t.Run("patch", w.testApprovalPatch)
	t.Run("rights beside the signer's", w.testApprovalBesides)
}

func (w world) testEveryApproval(t *testing.T) {
	stored := w.create(t, "any-write")
	labelled := stored.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	smuggled := apitest.With(stored, "Approved")
	smuggled.Spec.SignerName = "example.com/other" // for which the user may approve
	cases := map[string]*csr{
		"deny":              apitest.With(stored, "Denied"),
		"fail":              apitest.With(stored, "Failed"),
		"another condition": apitest.With(stored, "Other"),
		"nothing":           stored,
		"metadata alone":    labelled,
		"forged signer":     smuggled,
	}
	requests := w.as(t, "approve-other").CertificatesV1().CertificateSigningRequests()
	for reason, change := range cases {
		t.Run(reason, func(t *testing.T) {
			_, err := requests.UpdateApproval(t.Context(), stored.Name, change, noUpdate)
			wantForbidden(t, err, stored.Name, `user not permitted to approve requests with signerName "example.com/signer"`)
		})
	}
	if diff := cmp.Diff(stored, w.get(t, stored.Name)); diff != "" {
		t.Errorf("the request has changed (-was +is):\n%s", diff)
	}
}

func (w world) testApprovalPatch(t *testing.T) {
	stored := w.create(t, "patched")
	patch := []byte(`{"spec":{"signerName":"example.com/other"},"metadata":{"labels":{"a":"b"}}}`)
	for user, allowed := range map[string]bool{"approve-other": false, "approve-exact": true} {
		_, err := w.as(t, user).CertificatesV1().CertificateSigningRequests().
			Patch(t.Context(), stored.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "approval")
		if allowed && err != nil {
			t.Errorf("%s: %v", user, err)
		}
		if !allowed {
			wantForbidden(t, err, stored.Name, `user not permitted to approve requests with signerName "example.com/signer"`)
		}
	}
	if got := w.get(t, stored.Name); got.Spec.SignerName != signerName || got.Labels["a"] != "b" {
		t.Errorf("after the patch: signer %s, labels %v", got.Spec.SignerName, got.Labels)
	}
}

func (w world) testApprovalBesides(t *testing.T) {
	t.Run("the right on the signer is not enough", func(t *testing.T) {
		w.Grant(t, "signer-only", apitest.Allow("approve", "signers"))
		stored := w.create(t, "signer-only")
		_, err := w.as(t, "signer-only").CertificatesV1().CertificateSigningRequests().
			UpdateApproval(t.Context(), stored.Name, apitest.With(stored, "Approved"), noUpdate)
		wantForbidden(t, err, stored.Name, `User "signer-only" cannot update resource "certificatesigningrequests/approval" in API group "certificates.k8s.io" at the cluster scope`)
	})

	t.Run("the bootstrap role and a rule for one request", func(t *testing.T) {
		w.Grant(t, "narrow", apitest.Allow("update", "certificatesigningrequests/approval", "narrow-yes"),
			apitest.Allow("approve", "signers", signerName))
		requests := w.as(t, "narrow").CertificatesV1().CertificateSigningRequests()
		for name, allowed := range map[string]bool{"narrow-yes": true, "narrow-no": false} {
			_, err := requests.UpdateApproval(t.Context(), name, apitest.With(w.create(t, name), "Approved"), noUpdate)
			if allowed != (err == nil) || !allowed && !apierrors.IsForbidden(err) {
				t.Errorf("approving %s: %v", name, err)
			}
		}
	})

	t.Run("what is invalid is told before what is forbidden", func(t *testing.T) {
		stored := w.create(t, "invalid-approval")
		_, err := w.as(t, "approve-other").CertificatesV1().CertificateSigningRequests().
			UpdateApproval(t.Context(), stored.Name, apitest.With(apitest.With(stored, "Approved"), "Denied"), noUpdate)
		if !apierrors.IsInvalid(err) {
			t.Errorf("got %v, want 422", err)
		}
	})
}

func (w world) testSubject(t *testing.T) {
	const clients = certificatesv1.KubeAPIServerClientSignerName
	w.Grant(t, "requester", apitest.Allow("create", "certificatesigningrequests"))
	tests := []struct {
		reason  string
		signer  string
		subject pki.Subject
		refused bool
	}{
		{"the group", clients, pki.Subject{Organizations: []string{"system:masters"}}, true},
		{"the group among others", clients, pki.Subject{CommonName: "x", Organizations: []string{"a", "system:masters"}}, true},
		{"another group", clients, pki.Subject{Organizations: []string{"system:nodes"}}, false},
		{"a group that only looks like it", clients, pki.Subject{Organizations: []string{"System:Masters", "system:masters "}}, false},
		{"a user of that name", clients, pki.Subject{CommonName: "system:masters"}, false},
		{"another signer", signerName, pki.Subject{Organizations: []string{"system:masters"}}, false},
		{"the kubelets' signer", certificatesv1.KubeAPIServerClientKubeletSignerName, pki.Subject{Organizations: []string{"system:masters"}}, false},
	}
	const detail = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
	for i, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			request := apitest.NewCSR(t, fmt.Sprintf("subject-%d", i), tc.signer, tc.subject, apitest.NewKey(t))
			for who, client := range map[string]kubernetes.Interface{"requester": w.as(t, "requester"), "administrator": w.admin} {
				_, err := client.CertificatesV1().CertificateSigningRequests().Create(t.Context(), request, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				if !tc.refused && err != nil {
					t.Errorf("%s: %v", who, err)
				}
				if tc.refused {
					wantForbidden(t, err, request.Name, detail)
				}
			}
			_, err := w.admin.CertificatesV1().CertificateSigningRequests().Create(t.Context(), request, metav1.CreateOptions{})
			if tc.refused != apierrors.IsForbidden(err) || !tc.refused && err != nil {
				t.Errorf("not a dry run: %v", err)
			}
		})
	}
}

func (w world) testSubjectBesides(t *testing.T) {
	const clients = certificatesv1.KubeAPIServerClientSignerName
	t.Run("a request that cannot be read is invalid", func(t *testing.T) {
		request := apitest.NewCSR(t, "unreadable", clients, pki.Subject{}, apitest.NewKey(t))
		request.Spec.Request = []byte("nonsense")
		_, err := w.admin.CertificatesV1().CertificateSigningRequests().Create(t.Context(), request, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) {
			t.Errorf("got %v, want 422", err)
		}
	})

	t.Run("updates are not looked at", func(t *testing.T) {
		stored := apitest.Create(t, w.admin, apitest.NewCSR(t, "to-update", clients, pki.Subject{CommonName: "x"}, apitest.NewKey(t)))
		stored.Labels = map[string]string{"a": "b"}
		forged := apitest.NewCSR(t, "", clients, pki.Subject{Organizations: []string{"system:masters"}}, apitest.NewKey(t))
		stored.Spec.Request = forged.Spec.Request
		updated, err := w.admin.CertificatesV1().CertificateSigningRequests().Update(t.Context(), stored, noUpdate)
		if err != nil || string(updated.Spec.Request) == string(forged.Spec.Request) {
			t.Errorf("the request was replaced, or %v", err)
		}
	})
}
