package csr_test

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// The order of processing decides which of several errors a client sees.
func TestServerOrder(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("create", w.testCreateOrder)
	t.Run("update", w.testUpdateOrder)
	t.Run("subject restriction", w.testSubjectRestriction)
	t.Run("approve", w.testApprovePermission)
	t.Run("sign", w.testSignPermission)
	t.Run("what needs which verb", w.testWhatNeedsWhichVerb)
	t.Run("verbs of requests", w.testRequestVerbs)
}

func (w world) testCreateOrder(t *testing.T) {
	post := func(cfg *rest.Config, body string) answer {
		return w.callAs(t, cfg, call{method: http.MethodPost, path: v1Path, contentType: "application/json", body: []byte(body)})
	}
	const head = `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":`
	for _, tc := range []struct {
		reason string
		cfg    *rest.Config
		body   string
		want   int
	}{
		{"who are you", w.Anonymous(t), "garbage", http.StatusUnauthorized},
		{"may you", w.As(t, "nobody"), "garbage", http.StatusForbidden},
		{"what is this", w.Admin(t), "garbage", http.StatusBadRequest},
		{"a known version", w.Admin(t), `{"apiVersion":"certificates.k8s.io/v1alpha1","kind":"CertificateSigningRequest"}`, http.StatusBadRequest},
		{"the right kind", w.Admin(t), `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequestList"}`, http.StatusBadRequest},
		{"the right version for the path", w.Admin(t), `{"apiVersion":"certificates.k8s.io/v1beta1","kind":"CertificateSigningRequest"}`, http.StatusBadRequest},
		{"is it valid", w.Admin(t), head + `{"name":"a"}}`, http.StatusUnprocessableEntity},
	} {
		if got := post(tc.cfg, tc.body); got.code != tc.want {
			t.Errorf("%s: %d %s", tc.reason, got.code, got.body)
		}
	}
}

func (w world) testUpdateOrder(t *testing.T) {
	w.Grant(t, "updater", apitest.Allow("update", "certificatesigningrequests certificatesigningrequests/status certificatesigningrequests/approval"))
	updater := w.as(t, "updater")
	obj := w.create(t, "order")
	obj = w.mustPut(t, mainEndpoint, changed(obj, labels("a", "b")))
	bad := conditions("")
	stale := func(c *csr) { c.ResourceVersion = "1" }
	stranger := func(c *csr) { c.UID = "other" }
	absent := func(c *csr) { c.Name = "absent" }

	for _, tc := range []struct {
		reason string
		client kubernetes.Interface
		via    endpoint
		edits  []edit
		want   int32
	}{
		{"may you, before is it there", w.as(t, "nobody"), approvalEndpoint, []edit{absent}, http.StatusForbidden},
		{"is it there, before the precondition", updater, approvalEndpoint, []edit{absent, stranger}, http.StatusNotFound},
		{"the precondition, before validation", updater, approvalEndpoint, []edit{bad, stranger}, http.StatusConflict},
		{"the version, before validation", updater, approvalEndpoint, []edit{bad, stale}, http.StatusConflict},
		{"the version, before the verb", updater, approvalEndpoint, []edit{conditions("Approved"), stale}, http.StatusConflict},
		{"validation of an approval, before the verb", updater, approvalEndpoint, []edit{bad}, http.StatusUnprocessableEntity},
		{"approve", updater, approvalEndpoint, []edit{conditions("Approved")}, http.StatusForbidden},
		{"validation of a status, before the verb", updater, statusEndpoint, []edit{conditions("Approved")}, http.StatusUnprocessableEntity},
		{"of a certificate too", updater, statusEndpoint, []edit{certificate([]byte("junk"))}, http.StatusUnprocessableEntity},
		{"sign", updater, statusEndpoint, []edit{certificate(chain(t))}, http.StatusForbidden},
	} {
		_, err := put(t, tc.client, tc.via, changed(obj, tc.edits...))
		if got := statusOf(t, err); got.Code != tc.want {
			t.Errorf("%s: %d %s", tc.reason, got.Code, got.Message)
		}
	}
}

// A client certificate for all rights cannot be requested from the API server's
// client signer.
func (w world) testSubjectRestriction(t *testing.T) {
	const signerName = "kubernetes.io/kube-apiserver-client"
	ask := func(name string, edits ...edit) error {
		_, err := w.csrs().Create(bounded(t), newCSR(t, name, edits...), metav1.CreateOptions{})
		return err
	}
	in := func(groups ...string) edit {
		return func(c *csr) {
			c.Spec.Request = newRequest(t, pki.Subject{CommonName: "a", Organizations: groups})
		}
	}
	err := ask("masters", in("team", "system:masters"), signer(signerName))
	want := forbidden("masters", "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed")
	checkError(t, err, want)
	if got := statusOf(t, err); got.Code != http.StatusForbidden || got.Reason != metav1.StatusReasonForbidden || got.Details == nil ||
		got.Details.Group != "certificates.k8s.io" || got.Details.Kind != "certificatesigningrequests" || got.Details.Name != "masters" {
		t.Errorf("status is %+v", got)
	}
	checkError(t, ask("masters", in("system:masters"), signer(signerName), usages()), invalid("masters", "spec.usages: Required value"))
	checkError(t, ask("masters-at-another-signer", in("system:masters")), "")
	checkError(t, ask("another-group", in("system:Masters", "team"), signer(signerName)), "")
}

// The right to approve for a signer can be granted by its name, by its domain,
// or by a rule without names.
func (w world) testApprovePermission(t *testing.T) {
	const refusal = `user not permitted to approve requests with signerName "example.com/signer"`
	w.testPermission(t, approvalEndpoint, "approve", refusal, timed("", "Approved"))
}

func (w world) testSignPermission(t *testing.T) {
	const refusal = `user not permitted to sign requests with signerName "example.com/signer"`
	w.testPermission(t, statusEndpoint, "sign", refusal, certificate(chain(t)))
}

func (w world) testPermission(t *testing.T, via endpoint, verb, refusal string, change edit) {
	for _, tc := range []struct {
		user    string
		signers []string
		allowed bool
	}{
		{"by-name", []string{"example.com/signer"}, true},
		{"by-domain", []string{"example.com/*"}, true},
		{"by-any", nil, true},
		{"by-another-name", []string{"example.com/other", "kubernetes.io/*"}, false},
		{"by-glob", []string{"*", "*.com/*", "example.com/s*", "example.com"}, false},
	} {
		t.Run(tc.user, func(t *testing.T) {
			user := tc.user + "-" + verb
			w.Grant(t, user, apitest.Allow("update patch", "certificatesigningrequests/"+via.String()), apitest.Allow(verb, "signers", tc.signers...))
			obj := w.create(t, user)
			smuggle := func(c *csr) { c.Spec.SignerName = "example.com/other" }
			_, err := put(t, w.as(t, user), via, changed(obj, change, smuggle))
			if tc.allowed {
				checkError(t, err, "")
				return
			}
			checkError(t, err, forbidden(user, refusal))
			_, err = put(t, w.as(t, user), via, changed(obj, change), dryRun)
			checkError(t, err, forbidden(user, refusal))
		})
	}
}

// Every write to /approval needs the verb approve, and every change of the
// status through /status the verb sign; changes of only metadata through
// /status need neither.
func (w world) testWhatNeedsWhichVerb(t *testing.T) {
	w.Grant(t, "clerk", apitest.Allow("update patch", "certificatesigningrequests/status certificatesigningrequests/approval"))
	clerk := w.as(t, "clerk")
	obj := w.plant(t, "clerk", timed("", "Approved", "Failed", "A"))
	approve := forbidden("clerk", `user not permitted to approve requests with signerName "example.com/signer"`)
	sign := forbidden("clerk", `user not permitted to sign requests with signerName "example.com/signer"`)

	for _, tc := range []struct {
		reason string
		via    endpoint
		edit   edit
		want   string
	}{
		{"nothing, via approval", approvalEndpoint, func(*csr) {}, approve},
		{"metadata, via approval", approvalEndpoint, labels("a", "b"), approve},
		{"any condition, via approval", approvalEndpoint, timed("", "Approved", "Failed", "A", "B"), approve},
		{"nothing, via status", statusEndpoint, func(*csr) {}, ""},
		{"metadata, via status", statusEndpoint, labels("c", "d"), ""},
		{"a decision, which is put back", statusEndpoint, func(c *csr) { c.Status.Conditions[0].Reason = "new" }, ""},
		{"a condition", statusEndpoint, timed("", "Approved", "Failed", "A", "B"), sign},
		{"a condition's reason", statusEndpoint, func(c *csr) { c.Status.Conditions[1].Reason = "new" }, sign},
		{"a condition's time, filled in", statusEndpoint, func(c *csr) { c.Status.Conditions[1].LastUpdateTime = metav1.Time{} }, sign},
		{"the order", statusEndpoint, timed("", "Approved", "A", "Failed"), sign},
		{"a certificate", statusEndpoint, certificate(chain(t)), sign},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			_, err := put(t, clerk, tc.via, changed(obj, tc.edit, unconditional))
			checkError(t, err, tc.want)
		})
	}
	// An empty certificate is not the same as none.
	_, err := patch(t, clerk, statusEndpoint, "clerk", "application/merge-patch+json", `{"status":{"certificate":""}}`)
	checkError(t, err, sign)
	w.Grant(t, "approver", apitest.Allow("update", "certificatesigningrequests/approval"), apitest.Allow("approve", "signers"))
	denied := w.create(t, "denied-by-approver")
	_, err = put(t, w.as(t, "approver"), approvalEndpoint, changed(denied, conditions("Denied", "Failed", "Custom")))
	checkError(t, err, "")
}

// The usual rights: each endpoint is its own resource, and patch and update are
// different verbs.
func (w world) testRequestVerbs(t *testing.T) {
	w.Grant(t, "main-updater", apitest.Allow("update", "certificatesigningrequests"))
	w.Grant(t, "status-patcher", apitest.Allow("patch", "certificatesigningrequests/status"))
	obj := w.create(t, "verbs")
	for _, tc := range []struct {
		user    string
		via     endpoint
		verb    string
		allowed bool
	}{
		{"main-updater", mainEndpoint, "update", true},
		{"main-updater", mainEndpoint, "patch", false},
		{"main-updater", statusEndpoint, "update", false},
		{"main-updater", approvalEndpoint, "update", false},
		{"status-patcher", statusEndpoint, "patch", true},
		{"status-patcher", statusEndpoint, "update", false},
		{"status-patcher", mainEndpoint, "patch", false},
	} {
		var err error
		if tc.verb == "patch" {
			_, err = patch(t, w.as(t, tc.user), tc.via, "verbs", "application/merge-patch+json", `{"metadata":{"labels":{"a":"b"}}}`)
		} else {
			_, err = put(t, w.as(t, tc.user), tc.via, changed(obj, labels("c", "d"), unconditional))
		}
		resource := strings.TrimSuffix("certificatesigningrequests/"+string(tc.via), "/")
		want := ""
		if !tc.allowed {
			want = forbidden("verbs", `User "`+tc.user+`" cannot `+tc.verb+` resource "`+resource+`" in API group "certificates.k8s.io" at the cluster scope`)
		}
		checkError(t, err, want)
	}
}
