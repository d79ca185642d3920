package requestsign_test

import (
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
)

const (
	component     = "cert-manager-certificaterequests"
	ofCA          = component + "-issuer-ca"
	ofSelfSigned  = component + "-issuer-selfsigned"
	normalEvent   = corev1.EventTypeNormal
	warningEvent  = corev1.EventTypeWarning
	issuedMessage = "Certificate fetched from issuer successfully"
)

// Requests with keys of each kind are approved and get certificates, from an
// Issuer and a ClusterIssuer, for the default duration or another one.
func TestCA(t *testing.T) {
	w := share(t, &common)
	rsaKey, cluster := keys(t)["rsa"], "cluster-ca-"+w.namespace
	w.create(t,
		newCA(t, "", "ca", rsaKey), caIssuer("ca", "ca"),
		newCA(t, "cert-manager", cluster, rsaKey), &cmv1.ClusterIssuer{ObjectMeta: meta("", cluster), Spec: withCA(cluster)})
	for name, key := range keys(t) {
		w.create(t, request(t, name, cmmeta.IssuerReference{Name: "ca"}, key))
		cr := w.becomes(t, name, cmv1.CertificateRequestReasonIssued)
		cert := verified(t, cr, key)
		if got := cert.NotAfter.Sub(cert.NotBefore); got != 90*24*time.Hour {
			t.Errorf("%s lives %v", name, got)
		}
		if cert.Issuer.CommonName != "root of ca" || cert.DNSNames[0] != name+".example.com" {
			t.Errorf("%s: %v, %v", name, cert.Issuer, cert.DNSNames)
		}
	}
	key := apitest.NewKey(t)
	cr := request(t, "cluster", cmmeta.IssuerReference{Name: cluster, Kind: "ClusterIssuer", Group: "cert-manager.io"}, key)
	cr.Spec.Duration = &metav1.Duration{Duration: 35 * 24 * time.Hour}
	cr.Spec.Usages = []cmv1.KeyUsage{cmv1.UsageServerAuth}
	w.create(t, cr)
	cert := verified(t, w.becomes(t, "cluster", cmv1.CertificateRequestReasonIssued), key)
	if got := cert.NotAfter.Sub(cert.NotBefore); got != 35*24*time.Hour || cert.Issuer.CommonName != "root of "+cluster || cert.KeyUsage != 0 {
		t.Errorf("%v of %v with usages %v", got, cert.Issuer, cert.KeyUsage)
	}
}

// An issued request says who approved it and who signed it.
func TestConditions(t *testing.T) {
	w := share(t, &common)
	w.create(t, newCA(t, "", "ca", apitest.NewKey(t)), caIssuer("ca", "ca"), request(t, "web", cmmeta.IssuerReference{Name: "ca"}, apitest.NewKey(t)))
	cr := w.becomes(t, "web", cmv1.CertificateRequestReasonIssued)
	for kind, want := range map[cmv1.CertificateRequestConditionType]string{
		cmv1.CertificateRequestConditionApproved: "True cert-manager.io Certificate request has been approved by cert-manager.io",
		cmv1.CertificateRequestConditionReady:    "True Issued " + issuedMessage,
	} {
		c := api.RequestCondition(cr, kind)
		if got := strings.Join([]string{string(c.Status), c.Reason, c.Message}, " "); got != want || c.LastTransitionTime.IsZero() {
			t.Errorf("%s: %s since %v, want %s", kind, got, c.LastTransitionTime, want)
		}
	}
	if cr.Status.FailureTime != nil {
		t.Error("it has failed at", cr.Status.FailureTime)
	}
	writers := map[string]bool{}
	for _, entry := range cr.ManagedFields {
		writers[entry.Manager] = true
	}
	if !writers["cert-manager-certificaterequests-approver"] || !writers[ofCA] {
		t.Errorf("written by %v", writers)
	}
	w.told(t, "web", "cert-manager-certificaterequests-approver", normalEvent, "cert-manager.io")
	w.told(t, "web", ofCA, normalEvent, "CertificateIssued")
}

// A request waits for whatever is missing, reports that, and continues by
// itself.
func TestWaiting(t *testing.T) {
	w := share(t, &common)
	ref := cmmeta.IssuerReference{Name: "late"}
	key := apitest.NewKey(t)
	w.create(t, request(t, "web", ref, key))
	cr := w.becomes(t, "web", cmv1.CertificateRequestReasonPending)
	if got := api.RequestCondition(cr, cmv1.CertificateRequestConditionReady).Message; !strings.Contains(got, `"Issuer" not found`) {
		t.Errorf("message %q", got)
	}
	w.told(t, "web", component, normalEvent, "IssuerNotFound")
	w.create(t, caIssuer("late", "late"))
	w.told(t, "web", component, normalEvent, "IssuerNotReady")
	apitest.Eventually(t, "it says why", func() bool {
		cr := w.becomes(t, "web", cmv1.CertificateRequestReasonPending)
		return strings.Contains(api.RequestCondition(cr, cmv1.CertificateRequestConditionReady).Message, "ErrGetKeyPair")
	})
	w.create(t, newCA(t, "", "late", apitest.NewKey(t)))
	verified(t, w.becomes(t, "web", cmv1.CertificateRequestReasonIssued), key)
}

// Requests that are not approved are not signed, and denied requests stay
// denied forever.
func TestDecisions(t *testing.T) {
	w := share(t, &byHand)
	ref := cmmeta.IssuerReference{Name: "ca"}
	w.create(t, newCA(t, "", "ca", apitest.NewKey(t)), caIssuer("ca", "ca"))
	for _, name := range []string{"approved", "denied", "invalid", "undecided", "elsewhere"} {
		cr := request(t, name, ref, apitest.NewKey(t))
		if name == "elsewhere" {
			cr.Spec.IssuerRef = cmmeta.IssuerReference{Name: "ca", Kind: "Remote", Group: "example.com"}
		}
		w.create(t, cr)
	}
	w.decide(t, "denied", cmv1.CertificateRequestConditionDenied)
	denied := w.becomes(t, "denied", cmv1.CertificateRequestReasonDenied)
	ready := api.RequestCondition(denied, cmv1.CertificateRequestConditionReady)
	if ready.Status != cmmeta.ConditionFalse || ready.Message != "The CertificateRequest was denied by an approval controller" || denied.Status.FailureTime == nil {
		t.Errorf("%+v, failed at %v", ready, denied.Status.FailureTime)
	}
	w.decide(t, "invalid", cmv1.CertificateRequestConditionInvalidRequest)
	w.decide(t, "invalid", cmv1.CertificateRequestConditionApproved)
	w.decide(t, "approved", cmv1.CertificateRequestConditionApproved)
	w.becomes(t, "approved", cmv1.CertificateRequestReasonIssued)
	for _, name := range []string{"invalid", "undecided", "elsewhere"} {
		if cr := w.becomes(t, name, ""); len(cr.Status.Certificate) > 0 {
			t.Errorf("%s has a certificate", name)
		}
	}
	for name, reason := range map[string]string{"undecided": "WaitingForApproval", "elsewhere": "WaitingForIssuer"} {
		if note := w.told(t, name, component, normalEvent, reason); !strings.Contains(note, "certplane approve -n "+w.namespace+" "+name) {
			t.Errorf("%s: %s", name, note)
		}
	}
}

func TestSelfSigned(t *testing.T) {
	w := share(t, &common)
	w.create(t, selfSigned("self"))
	ref := cmmeta.IssuerReference{Name: "self", Kind: "Issuer"}
	for name, key := range keys(t) {
		w.create(t, keyIn(request(t, name, ref, key), name))
		w.told(t, name, ofSelfSigned, normalEvent, "MissingSecret")
		w.create(t, keySecret(t, name, key))
		cr := w.becomes(t, name, cmv1.CertificateRequestReasonIssued)
		if cert := verified(t, cr, key); string(cr.Status.CA) != string(cr.Status.Certificate) || cert.Issuer.String() != cert.Subject.String() {
			t.Errorf("%s: %v by %v", name, cert.Subject, cert.Issuer)
		}
	}
	w.create(t, request(t, "unnamed", ref, apitest.NewKey(t)))
	failed := w.becomes(t, "unnamed", cmv1.CertificateRequestReasonFailed)
	if failed.Status.FailureTime == nil {
		t.Error("it has failed at no time")
	}
	w.told(t, "unnamed", ofSelfSigned, warningEvent, "MissingAnnotation")
	w.create(t, keyIn(request(t, "other", ref, apitest.NewKey(t)), "rsa"))
	w.becomes(t, "other", cmv1.CertificateRequestReasonFailed)
	w.told(t, "other", ofSelfSigned, warningEvent, "ErrorKeyMatch")
}

// A Secret without a key can be replaced later. Its group may be left out of
// the reference.
func TestSelfSignedCorrected(t *testing.T) {
	w := share(t, &common)
	key := apitest.NewKey(t)
	w.create(t, selfSigned("self"),
		&corev1.Secret{ObjectMeta: meta("", "key"), Data: map[string][]byte{"tls.key": []byte("broken")}},
		keyIn(request(t, "web", cmmeta.IssuerReference{Name: "self"}, key), "key"))
	w.becomes(t, "web", cmv1.CertificateRequestReasonPending)
	w.told(t, "web", ofSelfSigned, normalEvent, "ErrorParsingKey")
	if err := w.admin.Update(t.Context(), keySecret(t, "key", key)); err != nil {
		t.Fatal(err)
	}
	verified(t, w.becomes(t, "web", cmv1.CertificateRequestReasonIssued), key)
}
