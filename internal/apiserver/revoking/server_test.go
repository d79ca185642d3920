package revoking_test

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

var shared = &apitest.Shared{Options: []func(*server.Config){apitest.IssueOnCreate}}

func TestMain(m *testing.M) { apitest.Main(m, shared) }

// world is a server that revokes.
type world struct {
	*apitest.Server
	t     *testing.T
	admin client.Client
	// warnings are those of all answers to admin.
	warnings []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *world) HandleWarningHeader(_ int, _, text string) { w.warnings = append(w.warnings, text) }

func newWorld(t *testing.T) *world {
	w := &world{Server: shared.Start(t), t: t}
	cfg := rest.CopyConfig(w.Admin(t))
	cfg.WarningHandler = w
	w.admin = w.client(cfg)
	return w
}

func (w *world) client(cfg *rest.Config) client.Client {
	w.t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), inventoryv1alpha1.AddToScheme(scheme)); err != nil {
		w.t.Fatal(err)
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// issue returns a client certificate of a user, requested by another one.
func (w *world) issue(user, requester string) *x509.Certificate {
	w.t.Helper()
	admin := apitest.Client(w.t, w.Admin(w.t))
	by := apitest.Client(w.t, w.As(w.t, requester, "system:masters"))
	csr := apitest.NewCSR(w.t, "", certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: user}, apitest.NewKey(w.t))
	csr.GenerateName = "revoking-"
	csr = apitest.Create(w.t, by, csr)
	apitest.Decide(w.t, admin, csr, certificatesv1.CertificateApproved)
	chain, err := pki.ParseCertificates(apitest.Issued(w.t, admin, csr))
	if err != nil {
		w.t.Fatal(err)
	}
	return chain[0]
}

// revocation revokes certificates.
func revocation(reason v1alpha1.RevocationReason, certificates ...v1alpha1.RevokedCertificate) *v1alpha1.Revocation {
	return &v1alpha1.Revocation{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Spec: v1alpha1.RevocationSpec{Certificates: certificates, Reason: reason},
	}
}

func byFingerprint(cert *x509.Certificate) v1alpha1.RevokedCertificate {
	return v1alpha1.RevokedCertificate{Fingerprint: pki.Fingerprint(cert)}
}

func byPEM(cert *x509.Certificate) v1alpha1.RevokedCertificate {
	return v1alpha1.RevokedCertificate{PEM: string(pki.EncodeCertificates(cert))}
}

// record returns the record of a certificate.
func (w *world) record(cert *x509.Certificate) *inventoryv1alpha1.IssuedCertificate {
	w.t.Helper()
	record := &inventoryv1alpha1.IssuedCertificate{}
	if err := w.admin.Get(w.t.Context(), client.ObjectKey{Name: pki.Fingerprint(cert)[:32]}, record); err != nil {
		w.t.Fatal(err)
	}
	return record
}

func TestRevoke(t *testing.T) {
	w := newWorld(t)
	cert, other := w.issue("alice", "alice"), w.issue("alice", "alice")

	dry := revocation("KeyCompromise", byFingerprint(cert))
	if err := w.admin.Create(t.Context(), dry, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if r := w.record(cert); r.Revocation != nil {
		t.Fatalf("a dry run has revoked: %+v", r.Revocation)
	}

	r := revocation("Superseded", byFingerprint(cert))
	r.Spec.Message = "laptop stolen"
	if err := w.admin.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	s := r.Status
	if s.Recorded != 1 || s.AlreadyRevoked != 0 || s.RequestedBy == nil || s.Time.IsZero() || !s.Ends.Time.Equal(cert.NotAfter) ||
		!meta.IsStatusConditionTrue(s.Conditions, v1alpha1.RevocationRecorded) {
		t.Errorf("status: %+v", s)
	}
	facts := w.record(cert).Revocation
	if facts == nil || facts.Reason != "Superseded" || facts.Name != r.Name || facts.By != s.RequestedBy.Username || !facts.Time.Time.Equal(s.Time.Time) {
		t.Errorf("the record says %+v", facts)
	}
	if facts := w.record(other).Revocation; facts != nil {
		t.Errorf("another certificate of the user is revoked: %+v", facts)
	}

	// A second time nothing changes, except that a key can become known as compromised.
	again := revocation("PrivilegeWithdrawn", byFingerprint(cert), byPEM(cert))
	if err := w.admin.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if again.Status.Recorded != 0 || again.Status.AlreadyRevoked != 1 {
		t.Errorf("status: %+v", again.Status)
	}
	if want := "revoked on " + s.Time.UTC().Format(time.RFC3339) + " by " + s.RequestedBy.Username + " (Revocation " + r.Name + ")"; !strings.Contains(strings.Join(w.warnings, "\n"), want) {
		t.Errorf("warnings %q, none has %q", w.warnings, want)
	}
	if facts := w.record(cert).Revocation; facts.Reason != "Superseded" {
		t.Errorf("the reason is %s", facts.Reason)
	}
	raised := revocation("KeyCompromise", byPEM(cert))
	if err := w.admin.Create(t.Context(), raised); err != nil {
		t.Fatal(err)
	}
	if facts := w.record(cert).Revocation; facts.Reason != "KeyCompromise" || !facts.Time.Time.Equal(s.Time.Time) || facts.Name != r.Name {
		t.Errorf("after raising: %+v", facts)
	}

	// It is final.
	r.Spec.Reason = "Unspecified"
	if err := w.admin.Update(t.Context(), r); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "a Revocation does not change") {
		t.Errorf("update: %v", err)
	}
	if err := w.admin.Delete(t.Context(), r); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "a revocation cannot be undone") {
		t.Errorf("delete: %v", err)
	}
}

// A certificate is identified by what its signature covers.
func TestRevokeOtherForm(t *testing.T) {
	w := newWorld(t)
	cert := w.issue("mallory", "mallory")
	der, ok := pki.OtherForm(cert)
	if !ok {
		t.Fatal("the certificate has one form")
	}
	other, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.admin.Create(t.Context(), revocation("KeyCompromise", byPEM(other))); err != nil {
		t.Fatal(err)
	}
	if want := "somebody has rewritten it"; !strings.Contains(strings.Join(w.warnings, "\n"), want) {
		t.Errorf("warnings %q, none has %q", w.warnings, want)
	}
	if w.record(cert).Revocation == nil {
		t.Error("the certificate is not revoked")
	}
}

func TestSelection(t *testing.T) {
	w := newWorld(t)
	mine := []*x509.Certificate{w.issue("s1", "selected"), w.issue("s2", "selected"), w.issue("s3", "selected")}
	other := w.issue("s1", "another")
	r := revocation("AffiliationChanged")
	r.Spec.Selection = &v1alpha1.RevocationSelection{Requesters: []string{"selected"}, Names: []string{"s1", "S2"}}
	r.Spec.AtMost = 1
	if err := w.admin.Create(t.Context(), r.DeepCopy()); err == nil || !strings.Contains(err.Error(), "spec.atMost: Invalid value: 1: 2 certificates match, and at most 1 may") {
		t.Errorf("with too many: %v", err)
	}
	r.Spec.AtMost = 2
	if err := w.admin.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if r.Status.Recorded != 2 {
		t.Errorf("status: %+v", r.Status)
	}
	for n, want := range map[*x509.Certificate]bool{mine[0]: true, mine[1]: true, mine[2]: false, other: false} {
		if got := w.record(n).Revocation != nil; got != want {
			t.Errorf("%s revoked: %v", n.Subject, got)
		}
	}
	byKey := revocation("KeyCompromise")
	byKey.Spec.Selection, byKey.Spec.AtMost = &v1alpha1.RevocationSelection{KeyFingerprints: []string{pki.KeyFingerprint(mine[2].PublicKey)}}, 5
	if err := w.admin.Create(t.Context(), byKey); err != nil || byKey.Status.Recorded != 1 || w.record(mine[2]).Revocation == nil {
		t.Errorf("by key: %v, %+v", err, byKey.Status)
	}
	// What was issued later is not selected.
	later := revocation("Unspecified")
	later.Spec.Selection = &v1alpha1.RevocationSelection{Requesters: []string{"another"}, IssuedBefore: &metav1.Time{Time: other.NotBefore.Add(-time.Hour)}}
	later.Spec.AtMost = 5
	if err := w.admin.Create(t.Context(), later); err == nil || !strings.Contains(err.Error(), "selects no certificate") {
		t.Errorf("issued later: %v", err)
	}
}

// Certificates that are issued later are revoked at once if their requests existed, unless the
// Revocation says otherwise.
func TestPendingRequests(t *testing.T) {
	w := newWorld(t)
	admin := apitest.Client(t, w.Admin(t))
	request := func(requester string) *certificatesv1.CertificateSigningRequest {
		csr := apitest.NewCSR(t, "", certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: requester}, apitest.NewKey(t))
		csr.GenerateName = "pending-"
		return apitest.Create(t, apitest.Client(t, w.As(t, requester, "system:masters")), csr)
	}
	issue := func(csr *certificatesv1.CertificateSigningRequest) *inventoryv1alpha1.RevocationFacts {
		apitest.Decide(t, admin, csr, certificatesv1.CertificateApproved)
		chain, err := pki.ParseCertificates(apitest.Issued(t, admin, csr))
		if err != nil {
			t.Fatal(err)
		}
		record, key := &inventoryv1alpha1.IssuedCertificate{}, client.ObjectKey{Name: pki.Fingerprint(chain[0])[:32]}
		apitest.Eventually(t, "the record is known", func() bool { return w.admin.Get(t.Context(), key, record) == nil })
		return record.Revocation
	}
	before := w.issue("thief", "thief")
	w.issue("left-alone", "left-alone")
	thief, alone, another := request("thief"), request("left-alone"), request("bystander")
	apitest.Eventually(t, "the next second", func() bool { return time.Now().Unix() > another.CreationTimestamp.Unix() })
	var revoked *v1alpha1.Revocation
	for who, wanted := range map[string]*bool{"thief": nil, "left-alone": new(bool)} {
		r := revocation("KeyCompromise")
		r.Spec.Selection = &v1alpha1.RevocationSelection{Requesters: []string{who}, PendingRequests: wanted}
		r.Spec.AtMost = 1
		if err := w.admin.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if who == "thief" {
			revoked = r
		}
	}
	// One that was issued by a server that did not know the Revocation yet.
	late := w.record(before).DeepCopy()
	late.Certificate.Fingerprint, late.Certificate.SerialNumber, late.Revocation = strings.Repeat("5a", 32), "5a5a", nil
	late.CreationTimestamp, late.Approval.Time = revoked.CreationTimestamp, &thief.CreationTimestamp
	w.Record(t, late)
	apitest.Eventually(t, "it is revoked, too", func() bool {
		err := w.admin.Get(t.Context(), client.ObjectKey{Name: late.Name}, late)
		return err == nil && late.Revocation != nil && late.Revocation.Name == revoked.Name
	})
	if facts := issue(thief); facts == nil || facts.Name != revoked.Name || facts.Reason != "KeyCompromise" {
		t.Errorf("the certificate of a pending request: %+v", facts)
	}
	for reason, csr := range map[string]*certificatesv1.CertificateSigningRequest{
		"pendingRequests: false": alone, "of somebody else": another, "requested later": request("thief"),
	} {
		if facts := issue(csr); facts != nil {
			t.Errorf("%s: %+v", reason, facts)
		}
	}
}

func TestBadInput(t *testing.T) {
	w := newWorld(t)
	cert := w.issue("bad", "bad")
	key := apitest.NewKey(t)
	stranger, err := pki.NewRoot(pki.UnrecordedSigning, "stranger", key, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := stranger.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "x"}, key.Public(), pki.ClientUsages(), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	text := string(pki.EncodeCertificates(cert))
	unknown := strings.Repeat("ab", 32)
	selection := func(s *v1alpha1.RevocationSelection, atMost int32) *v1alpha1.Revocation {
		r := revocation("Unspecified")
		r.Spec.Selection, r.Spec.AtMost = s, atMost
		return r
	}
	both := selection(&v1alpha1.RevocationSelection{Signers: []string{"a/b"}}, 1)
	both.Spec.Certificates = []v1alpha1.RevokedCertificate{byFingerprint(cert)}
	for _, test := range []struct {
		revocation *v1alpha1.Revocation
		want       string
	}{
		{revocation("Unspecified"), "exactly one of certificates and selection must be set"},
		{both, "exactly one of certificates and selection must be set"},
		{revocation("CertificateHold", byFingerprint(cert)), `spec.reason: Unsupported value: "CertificateHold"`},
		{revocation("CACompromise", byFingerprint(cert)), "CACompromise\": is for CA certificates: use KeyCompromise"},
		{revocation("Unspecified", v1alpha1.RevokedCertificate{Fingerprint: unknown}), "no certificate with this fingerprint is recorded: give it as pem, or by serialNumber and authorityKeyID"},
		{revocation("Unspecified", v1alpha1.RevokedCertificate{PEM: "x"}), "spec.certificates[0].pem: Invalid value: \"\": must be one certificate in PEM"},
		{revocation("Unspecified", v1alpha1.RevokedCertificate{PEM: text + text}), "must be one certificate in PEM"},
		{revocation("Unspecified", byPEM(foreign[0])), "spec.certificates[0].pem: Forbidden: is signed by no CA that this server knows"},
		{revocation("Unspecified", v1alpha1.RevokedCertificate{SerialNumber: "1f", AuthorityKeyID: "abcd"}), "no CA that this server knows has this key identifier"},
		{revocation("Unspecified", v1alpha1.RevokedCertificate{SerialNumber: "1f"}), "serialNumber and authorityKeyID must be set together"},
		{revocation("Unspecified", v1alpha1.RevokedCertificate{}), "exactly one of fingerprint, serialNumber and pem must be set"},
		{selection(&v1alpha1.RevocationSelection{Signers: []string{"a/b"}}, 0), "atMost is required with selection"},
		{selection(&v1alpha1.RevocationSelection{}, 1), "at least one list must be set"},
		{selection(&v1alpha1.RevocationSelection{Labels: "a=b,,c"}, 1), "spec.selection.labels: Invalid value"},
		{selection(&v1alpha1.RevocationSelection{Signers: []string{"a/b"}, IssuedBefore: &metav1.Time{Time: time.Now().Add(time.Hour)}}, 1), "must not be in the future"},
	} {
		err := w.admin.Create(t.Context(), test.revocation)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
	if facts := w.record(cert).Revocation; facts != nil {
		t.Errorf("bad input has revoked: %+v", facts)
	}
}

func TestRights(t *testing.T) {
	w := newWorld(t)
	signerName := certificatesv1.KubeAPIServerClientSignerName
	revoke := rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"revocations"}}
	for user, rules := range map[string][]rbacv1.PolicyRule{
		"none": {revoke}, "named": {revoke, apitest.Allow("revoke", "signers", signerName)},
		"domain": {revoke, apitest.Allow("revoke", "signers", "kubernetes.io/*")}, "other": {revoke, apitest.Allow("revoke", "signers", "example.com/*")},
		"many": {revoke, apitest.Allow("revoke revokemany", "signers", signerName)},
	} {
		w.Grant(t, user, rules...)
	}
	cert, own := w.issue("victim", "victim"), w.issue("mine", "none")
	denied := func(user string, certs ...v1alpha1.RevokedCertificate) error {
		return w.client(w.As(t, user)).Create(t.Context(), revocation("Unspecified", certs...), client.DryRunAll)
	}
	want := fmt.Sprintf("user %q may not revoke certificates of %s (revoke on signers.certificates.k8s.io), and has not requested 1 of 2", "none", signerName)
	if err := denied("none", byFingerprint(own), byFingerprint(cert)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	// Who may not revoke learns no numbers.
	victims := revocation("Unspecified")
	victims.Spec.Selection, victims.Spec.AtMost = &v1alpha1.RevocationSelection{Requesters: []string{"victim"}}, 1
	w.issue("victim", "victim")
	if err := w.client(w.As(t, "none")).Create(t.Context(), victims, client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("a selection of others' certificates: %v", err)
	}
	if err := denied("none", byFingerprint(own)); err != nil {
		t.Errorf("the own certificate: %v", err)
	}
	if err := denied("other", byPEM(cert)); !apierrors.IsForbidden(err) {
		t.Errorf("with the right to another domain: %v", err)
	}
	for _, user := range []string{"named", "domain"} {
		if err := denied(user, byPEM(cert)); err != nil {
			t.Errorf("%s: %v", user, err)
		}
	}
	// Many certificates need one right more.
	var all []v1alpha1.RevokedCertificate
	for range 26 {
		all = append(all, byFingerprint(w.issue("fleet", "fleet")))
	}
	if err := denied("named", all...); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "need the verb revokemany on signers.certificates.k8s.io "+signerName) {
		t.Errorf("26 certificates: %v", err)
	}
	if err := denied("named", all[1:]...); err != nil {
		t.Errorf("25 certificates: %v", err)
	}
	if err := denied("many", all...); err != nil {
		t.Errorf("26 certificates with both rights: %v", err)
	}
}

// A key that is known as compromised gets no further certificate, and a request that was
// made before is not approved.
func TestCompromisedKey(t *testing.T) {
	w := newWorld(t)
	admin := apitest.Client(t, w.Admin(t))
	for reason, refused := range map[v1alpha1.RevocationReason]bool{"KeyCompromise": true, "PrivilegeWithdrawn": false} {
		key := apitest.NewKey(t)
		request := func() *certificatesv1.CertificateSigningRequest {
			csr := apitest.NewCSR(t, "", certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: "leaky"}, key)
			csr.GenerateName = "leaky-"
			return csr
		}
		csr, before := apitest.Create(t, admin, request()), apitest.Create(t, admin, request())
		apitest.Decide(t, admin, csr, certificatesv1.CertificateApproved)
		chain, err := pki.ParseCertificates(apitest.Issued(t, admin, csr))
		if err != nil {
			t.Fatal(err)
		}
		r := revocation(reason, byFingerprint(chain[0]))
		if err := w.admin.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		_, createErr := admin.CertificatesV1().CertificateSigningRequests().Create(t.Context(), request(), metav1.CreateOptions{})
		_, approveErr := admin.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), before.Name, apitest.With(before, certificatesv1.CertificateApproved), metav1.UpdateOptions{})
		for _, err := range []error{createErr, approveErr} {
			if !refused && err != nil || refused && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "(Revocation "+r.Name+"): make a new key")) {
				t.Errorf("%s: %v", reason, err)
			}
		}
	}
}
