package revoking_test

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/rights"
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

func digest(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// record returns the record of a certificate.
func (w *world) record(cert *x509.Certificate) *inventoryv1alpha1.IssuedCertificate {
	w.t.Helper()
	record := &inventoryv1alpha1.IssuedCertificate{}
	key := client.ObjectKey{Name: pki.Fingerprint(cert)[:32]}
	apitest.Eventually(w.t, "the record is known", func() bool { return w.admin.Get(w.t.Context(), key, record) == nil })
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
	forged := cert.Raw[: len(cert.Raw)-1 : len(cert.Raw)-1]
	forged = append(forged, cert.Raw[len(cert.Raw)-1]^1)
	ended := w.recorded(cert, "ended", func(r *inventoryv1alpha1.IssuedCertificate) {
		r.Certificate.NotAfter = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	})
	ca := hex.EncodeToString(cert.AuthorityKeyId)
	for _, test := range []struct {
		revocation *v1alpha1.Revocation
		want       string // empty if it is created
		warns      string
	}{
		{revocation: revocation("Unspecified"), want: "spec: Invalid value: exactly one of certificates and selection must be set"},
		{revocation: both, want: "spec: Invalid value: exactly one of certificates and selection must be set"},
		{revocation: revocation("CertificateHold", byFingerprint(cert)), want: `spec.reason: Unsupported value: "CertificateHold": supported values: "Unspecified", "KeyCompromise", `},
		{revocation: revocation("keyCompromise", byFingerprint(cert)), want: `spec.reason: Unsupported value: "keyCompromise": supported values: "Unspecified", "KeyCompromise", `},
		{revocation: revocation("", byFingerprint(cert)), want: `spec.reason: Unsupported value: ""`},
		{revocation: revocation("CACompromise", byFingerprint(cert)), want: `spec.reason: Invalid value: "CACompromise": is for CA certificates: use KeyCompromise`},
		{revocation: revocation("Unspecified", v1alpha1.RevokedCertificate{Fingerprint: unknown}), want: "spec.certificates[0].fingerprint: Not found: \"" + unknown + ": no certificate with this fingerprint is recorded: give it as pem, or by serialNumber and authorityKeyID"},
		{revocation: revocation("Unspecified", v1alpha1.RevokedCertificate{PEM: "x"}), want: "spec.certificates[0].pem: Invalid value: \"\": must be one certificate in PEM"},
		{revocation: revocation("Unspecified", byFingerprint(cert), v1alpha1.RevokedCertificate{PEM: text + text}), want: "spec.certificates[1].pem: Invalid value: \"\": must be one certificate in PEM"},
		{revocation: revocation("Unspecified", v1alpha1.RevokedCertificate{PEM: text + "x"}), want: "must be one certificate in PEM"},
		{revocation: revocation("Unspecified", v1alpha1.RevokedCertificate{PEM: text + strings.Repeat("\n", 64<<10)}), want: "spec.certificates[0].pem: Too long: may not be more than 65536 bytes"},
		{revocation: revocation("Unspecified", byPEM(foreign[0])), want: "spec.certificates[0].pem: Forbidden: is signed by no CA that this server knows"},
		{revocation: revocation("Unspecified", v1alpha1.RevokedCertificate{PEM: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: forged}))}), want: "spec.certificates[0].pem: Forbidden: is signed by no CA that this server knows"},
		{revocation: revocation("Unspecified", v1alpha1.RevokedCertificate{SerialNumber: "1f", AuthorityKeyID: "abcd"}), want: "spec.certificates[0].authorityKeyID: Not found: \"abcd: no CA that this server knows has this key identifier"},
		{revocation: revocation("Unspecified", v1alpha1.RevokedCertificate{SerialNumber: "1f"}), want: "serialNumber and authorityKeyID must be set together"},
		{revocation: revocation("Unspecified", v1alpha1.RevokedCertificate{}), want: "exactly one of fingerprint, serialNumber and pem must be set"},
		{revocation: revocation("Unspecified", v1alpha1.RevokedCertificate{Fingerprint: ended.Certificate.Fingerprint}), want: "spec.certificates[0]: Forbidden: ended on 2026-01-02T03:04:05Z"},
		{revocation: selection(&v1alpha1.RevocationSelection{Signers: []string{"a/b"}}, 0), want: "atMost is required with selection"},
		{revocation: selection(&v1alpha1.RevocationSelection{}, 1), want: "at least one list must be set"},
		{revocation: selection(&v1alpha1.RevocationSelection{Labels: "a=b,,c"}, 1), want: "spec.selection.labels: Invalid value"},
		{revocation: selection(&v1alpha1.RevocationSelection{Signers: []string{"a/b"}}, 1), want: "selects no certificate that has not ended and is not revoked"},
		{revocation: selection(&v1alpha1.RevocationSelection{Signers: []string{"a/b"}, IssuedBefore: &metav1.Time{Time: time.Now().Add(time.Hour)}}, 1), want: "spec.selection.issuedBefore: Invalid value: "},
		{revocation: revocation("Unspecified", v1alpha1.RevokedCertificate{SerialNumber: "4711", AuthorityKeyID: strings.ToUpper(ca)}), warns: "spec.certificates[0]: no record: kube-apiserver's webhook cannot refuse it, because it knows fingerprints only"},
	} {
		w.warnings = nil
		err := w.admin.Create(t.Context(), test.revocation)
		if test.want == "" && (err != nil || !slices.Equal(w.warnings, []string{test.warns})) {
			t.Errorf("got %v, warned %q, want %q", err, w.warnings, test.warns)
		}
		if test.want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
	if facts := w.record(cert).Revocation; facts != nil {
		t.Errorf("bad input has revoked: %+v", facts)
	}
}

// recorded writes a record that is like that of a certificate, but for some changes.
func (w *world) recorded(like *x509.Certificate, id string, change func(*inventoryv1alpha1.IssuedCertificate)) *inventoryv1alpha1.IssuedCertificate {
	w.t.Helper()
	r := w.record(like).DeepCopy()
	r.Labels, r.Certificate.Fingerprint, r.Certificate.Twin = nil, digest(w.t.Name()+id), ""
	r.Certificate.SerialNumber = r.Certificate.Fingerprint[:16]
	change(r)
	w.Record(w.t, r)
	apitest.Eventually(w.t, "the record is known", func() bool { return w.admin.Get(w.t.Context(), client.ObjectKeyFromObject(r), r) == nil })
	return r
}

// A selection that takes longer than its request may revokes nothing.
func TestSlowSelection(t *testing.T) {
	w := newWorld(t)
	cert := w.issue("slow", "slow")
	body := `{"apiVersion":"certplane.dev/v1alpha1","kind":"Revocation","metadata":{"name":"slow"},"spec":{"selection":{"requesters":["slow"]},"atMost":9,"reason":"Unspecified"}}`
	at := apitest.Client(t, w.Admin(t)).CoreV1().RESTClient().Post().AbsPath("/apis/certplane.dev/v1alpha1/revocations").SetHeader("Content-Type", "application/json").Body([]byte(body))
	if err := at.Param("timeout", "1us").Do(t.Context()).Error(); !apierrors.IsTimeout(err) {
		t.Errorf("got %v, want a timeout", err)
	}
	if facts := w.record(cert).Revocation; facts != nil {
		t.Errorf("it has revoked: %+v", facts)
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
	selectsCA := revocation("Unspecified")
	selectsCA.Spec.Selection, selectsCA.Spec.AtMost = &v1alpha1.RevocationSelection{AuthorityKeyIDs: []string{hex.EncodeToString(cert.AuthorityKeyId)}, Requesters: []string{"victim"}}, 5
	for user, may := range map[string]bool{"named": false, "many": true} {
		if err := w.client(w.As(t, user)).Create(t.Context(), selectsCA.DeepCopy(), client.DryRunAll); (err == nil) != may || err != nil && !strings.Contains(err.Error(), "need the verb revokemany") {
			t.Errorf("%s, all of a CA: %v", user, err)
		}
	}
}

// The owner of a namespace may revoke certificates of requests in it, and the ACME server those
// of its orders. A single certificate without a right refuses a thousand.
func TestRightsOfRecords(t *testing.T) {
	w := newWorld(t)
	like := w.issue("like", "like")
	of := func(id string, kind rights.Kind, namespace, location string) *inventoryv1alpha1.IssuedCertificate {
		return w.recorded(like, id, func(r *inventoryv1alpha1.IssuedCertificate) {
			r.SignerName = "example.com/records"
			r.Request = inventoryv1alpha1.RequestFacts{APIGroup: kind.Group, Kind: kind.Name, Namespace: namespace, Name: id, Requester: "requester"}
			if location != "" {
				r.Location = &inventoryv1alpha1.Location{Kind: location, Namespace: namespace, Name: id}
			}
		})
	}
	records := map[string]*inventoryv1alpha1.IssuedCertificate{
		"issuer": of("issuer", rights.IssuerRequests, "default", "Certificate"), "other issuer": of("other issuer", rights.IssuerRequests, "bank", ""),
		"pod": of("pod", rights.PodRequests, "default", ""), "csr": of("csr", rights.SigningRequests, "", ""), "order": of("order", rights.SigningRequests, "", "AcmeOrder"),
	}
	create := rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"revocations"}}
	acme := "system:serviceaccount:" + rights.ServeNamespace + ":" + rights.ACMEServerAccount
	rbac := apitest.Client(t, w.Admin(t)).RbacV1()
	for user, may := range map[string][]string{"owner": {"issuer", "pod"}, "shopkeeper": {"issuer"}, acme: {"order"}} {
		revokes := func(name string) error {
			r := revocation("Unspecified", v1alpha1.RevokedCertificate{Fingerprint: records[name].Certificate.Fingerprint})
			return w.client(w.As(t, user)).Create(t.Context(), r, client.DryRunAll)
		}
		if user != acme {
			w.Grant(t, user, create)
			role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"revoke"}, APIGroups: []string{"*"}, Resources: []string{"certificaterequests", "podcertificaterequests"}[:len(may)]}}}
			binding := &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: user}, Subjects: []rbacv1.Subject{{Kind: "User", Name: user}}}
			if _, err := rbac.Roles("default").Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := rbac.RoleBindings("default").Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range may {
			apitest.Eventually(t, user+" may revoke "+name, func() bool { return revokes(name) == nil })
		}
		for name := range records {
			if err := revokes(name); !slices.Contains(may, name) && !apierrors.IsForbidden(err) {
				t.Errorf("%s revokes %s: %v", user, name, err)
			}
		}
	}

	const many = 1000
	var fleet []*inventoryv1alpha1.IssuedCertificate
	var named []v1alpha1.RevokedCertificate
	for n := range many {
		r := records["csr"].DeepCopy()
		r.Labels, r.ResourceVersion, r.Certificate.Fingerprint = nil, "", digest(fmt.Sprint("fleet ", n))
		if r.Certificate.SerialNumber = r.Certificate.Fingerprint[:16]; n == many/2 {
			r.SignerName = "example.com/another"
		}
		fleet, named = append(fleet, r), append(named, v1alpha1.RevokedCertificate{Fingerprint: r.Certificate.Fingerprint})
	}
	w.Record(t, fleet...)
	w.Grant(t, "fleet", create, apitest.Allow("revoke revokemany", "signers", "example.com/records"))
	var err error
	apitest.Eventually(t, "the records are known", func() bool {
		err = w.client(w.As(t, "fleet")).Create(t.Context(), revocation("Unspecified", named...))
		return !apierrors.IsInvalid(err)
	})
	if want := `user "fleet" may not revoke certificates of example.com/another (revoke on signers.certificates.k8s.io), and has not requested 1 of 1000`; !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	all := w.client(w.As(t, "fleet"))
	act := revocation("Unspecified", slices.Delete(slices.Clone(named), many/2, many/2+1)...)
	if err := all.Create(t.Context(), act); err != nil || act.Status.Recorded != many-1 { // none was revoked before
		t.Errorf("without that certificate: %v, %+v", err, act.Status)
	}
}

// A policy of the administrators can demand more than the server, such as a message.
func TestAdmissionPolicy(t *testing.T) {
	w := newWorld(t)
	cert := w.issue("audited", "audited")
	api := apitest.Client(t, w.Admin(t)).AdmissionregistrationV1()
	named := metav1.ObjectMeta{Name: "revocations-have-a-ticket"}
	fail := admissionregistrationv1.Fail
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: named, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: &fail,
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{v1alpha1.GroupName}, APIVersions: []string{"*"}, Resources: []string{"revocations"}},
		}}}},
		Validations: []admissionregistrationv1.Validation{{Expression: `has(object.spec.message) && object.spec.message.startsWith("INC-")`, Message: "spec.message must begin with a ticket such as INC-4711"}},
	}}
	if _, err := api.ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: named, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: named.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}}
	if _, err := api.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() { // other tests share the server
		if err := api.ValidatingAdmissionPolicyBindings().Delete(t.Context(), named.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		apitest.Eventually(t, "the policy is not asked", func() bool {
			return w.admin.Create(t.Context(), revocation("Unspecified", byFingerprint(cert)), client.DryRunAll) == nil
		})
	}()
	apitest.Eventually(t, "a Revocation without a message is refused", func() bool {
		err := w.admin.Create(t.Context(), revocation("Superseded", byFingerprint(cert)), client.DryRunAll)
		return apierrors.IsInvalid(err) && strings.Contains(err.Error(), policy.Spec.Validations[0].Message)
	})
	r := revocation("Superseded", byFingerprint(cert))
	if err := w.admin.Create(t.Context(), r.DeepCopy()); !apierrors.IsInvalid(err) || w.record(cert).Revocation != nil {
		t.Errorf("without a message: %v", err)
	}
	r.Spec.Message = "INC-4711"
	if err := w.admin.Create(t.Context(), r); err != nil || w.record(cert).Revocation == nil {
		t.Errorf("with one: %v", err)
	}
}

// Once a revocation is answered, no request with the certificate is accepted, on whatever
// connection.
func TestRefusedOnceAnswered(t *testing.T) {
	w := newWorld(t)
	const workers, each = 8, 125
	ca, key := w.ClientCA(t), apitest.NewKey(t)
	var group errgroup.Group
	var refused atomic.Int32
	for range workers {
		admin := w.client(w.Admin(t))
		group.Go(func() error {
			for n := range each {
				chain, err := ca.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "brief"}, key.Public(), pki.ClientUsages(), time.Hour, time.Now())
				if err != nil {
					return err
				}
				cfg := w.LoginWith(t, pki.EncodeCertificates(chain...), key)
				answer := func() error { // by a connection of its own
					of := rest.CopyConfig(cfg)
					of.Dial = (&net.Dialer{}).DialContext
					return apitest.Client(t, of).Discovery().RESTClient().Get().AbsPath("/version").Do(t.Context()).Error()
				}
				if err := answer(); err != nil {
					return fmt.Errorf("before revocation %d: %w", n, err)
				}
				if err := admin.Create(t.Context(), revocation("Superseded", byPEM(chain[0]))); err != nil {
					return err
				}
				switch err := answer(); {
				case err == nil:
					return fmt.Errorf("right after revocation %d, a request is accepted", n)
				case apierrors.IsUnauthorized(err): // else the connection was closed while it was answered
					refused.Add(1)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil || refused.Load() < workers*each/2 {
		t.Errorf("%v, %d requests are refused", err, refused.Load())
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

// The inventory shows what is revoked: in its tables, to selectors, page by page, and to those
// who watch it.
func TestInventoryOfRevoked(t *testing.T) {
	w := newWorld(t)
	certs := []*x509.Certificate{w.issue("p1", "paged"), w.issue("p2", "paged"), w.issue("p3", "paged"), w.issue("p4", "paged")}
	watching, err := client.NewWithWatch(w.Admin(t), client.Options{Scheme: w.admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	list := func(selector string) (names []string, version string, pages int) {
		t.Helper()
		options := &client.ListOptions{Limit: 1, Raw: &metav1.ListOptions{FieldSelector: "request.requester=paged" + selector}}
		for {
			page := &inventoryv1alpha1.IssuedCertificateList{}
			if err := watching.List(t.Context(), page, options); err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Items {
				names = append(names, r.Name)
			}
			if pages, version = pages+1, page.ResourceVersion; page.Continue == "" {
				return names, version, pages
			}
			options.Continue = page.Continue
		}
	}
	all, version, _ := list("")
	if len(all) != len(certs) {
		t.Fatalf("%d records", len(all))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watches := map[string]<-chan watch.Event{}
	for _, selector := range []string{"", ",revoked=true", ",revoked=false"} {
		events, err := watching.Watch(ctx, &inventoryv1alpha1.IssuedCertificateList{}, &client.ListOptions{Raw: &metav1.ListOptions{FieldSelector: "request.requester=paged" + selector, ResourceVersion: version}})
		if err != nil {
			t.Fatal(err)
		}
		defer events.Stop()
		watches[selector] = events.ResultChan()
	}
	r := revocation("Superseded", byFingerprint(certs[0]), byFingerprint(certs[1]), byPEM(certs[2]))
	if err := w.admin.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for selector, want := range map[string]watch.EventType{"": watch.Modified, ",revoked=true": watch.Added, ",revoked=false": watch.Deleted} {
		for range r.Status.Recorded {
			event := <-watches[selector]
			if record, ok := event.Object.(*inventoryv1alpha1.IssuedCertificate); event.Type != want || !ok || record.Revocation == nil || record.Revocation.Name != r.Name {
				t.Errorf("%q: %s %+v, want %s", selector, event.Type, event.Object, want)
			}
		}
	}
	if revoked, _, pages := list(",revoked=true"); len(revoked) != 3 || pages < 3 || slices.Contains(revoked, pki.Fingerprint(certs[3])[:32]) {
		t.Errorf("revoked are %q on %d pages", revoked, pages)
	}
	if valid, _, _ := list(",revoked=false"); !slices.Equal(valid, []string{pki.Fingerprint(certs[3])[:32]}) {
		t.Errorf("not revoked are %q", valid)
	}
	err = watching.List(t.Context(), &inventoryv1alpha1.IssuedCertificateList{}, &client.ListOptions{Raw: &metav1.ListOptions{FieldSelector: "revoked=yes"}})
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `"yes" is neither true nor false`) {
		t.Errorf("another value: %v", err)
	}
	if table := apitest.Table(t, w.Admin(t), "/apis/inventory.certplane.dev/v1alpha1/issuedcertificates?fieldSelector=request.requester%3Dpaged"); strings.Count(table, "revoked") != 3 || strings.Count(table, "valid") != 1 {
		t.Errorf("the table is\n%s", table)
	}
}
