package main

import (
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/examples/external-issuer/api/v1alpha1"
)

func sample() *v1alpha1.SampleIssuer {
	return &v1alpha1.SampleIssuer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sample"},
		Spec:       v1alpha1.IssuerSpec{SecretName: "sample-ca", Domains: []string{"example.com"}},
	}
}

// From the manifests to a certificate in a Secret; the CA comes last.
func TestCertificate(t *testing.T) {
	w := start(t)
	w.issue(t)
	w.kubectl(t, "apply", "-f", "deploy/sample.yaml")
	w.kubectl(t, "-n", "default", "wait", "sampleissuer/sample", "--for=condition=Ready=False", "--timeout=1m")
	cr := w.becomes(t, "web-1", cmv1.CertificateRequestReasonPending)
	if got := readyOf(cr).Message; !strings.Contains(got, `secrets "sample-ca" not found`) {
		t.Errorf("it waits for %s", got)
	}
	secret, root := newCA(t, "default", "sample-ca")
	w.create(t, secret)
	// The longest pause between two checks is a minute.
	w.kubectl(t, "-n", "default", "wait", "certificate/web", "--for=condition=Ready", "--timeout=3m")
	got := &corev1.Secret{}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web-tls"}, got); err != nil {
		t.Fatal(err)
	}
	verify(t, got.Data[corev1.TLSCertKey], root, nil)
	if string(got.Data["ca.crt"]) != string(secret.Data[corev1.TLSCertKey]) {
		t.Error("ca.crt is not the root")
	}
	if out := w.kubectl(t, "get", "sampleissuers", "-A"); !strings.Contains(out, "True") {
		t.Error(out)
	}
}

// An unapproved request is not signed; a denied or refused request has a condition that
// reports it.
func TestCertificateRequests(t *testing.T) {
	w := start(t, "controllers: ['*', '-certificaterequests-approver']")
	w.issue(t)
	secret, root := newCA(t, "default", "sample-ca")
	key := newKey(t)
	w.create(t, secret, sample(),
		request(t, "good", "web.example.com", key), request(t, "refused", "web.example.org", newKey(t)),
		request(t, "denied", "web.example.com", newKey(t)), request(t, "undecided", "web.example.com", newKey(t)))
	kubeconfig := []string{"--kubeconfig", w.kubeconfig, "-n", "default"}
	for _, decision := range [][]string{{"approve", "good"}, {"approve", "refused"}, {"deny", "denied"}} {
		w.certplane(t, append(decision, kubeconfig...)...)
	}
	verify(t, w.becomes(t, "good", cmv1.CertificateRequestReasonIssued).Status.Certificate, root, key.Public())
	refused := w.becomes(t, "refused", cmv1.CertificateRequestReasonFailed)
	if got := readyOf(refused).Message; got != "the name web.example.org is not under example.com" || refused.Status.FailureTime == nil {
		t.Errorf("%s at %v", got, refused.Status.FailureTime)
	}
	w.becomes(t, "denied", cmv1.CertificateRequestReasonDenied)
	eventually(t, "an Event says what is missing", func() bool {
		out := w.kubectl(t, "-n", "default", "get", "events.events.k8s.io", "-o", "jsonpath={range .items[*]}{.regarding.name} {.reason}{\"\\n\"}{end}")
		return strings.Contains(out, "undecided WaitingForApproval")
	})
	undecided := &cmv1.CertificateRequest{}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "undecided"}, undecided); err != nil {
		t.Fatal(err)
	}
	if len(undecided.Status.Certificate) > 0 || len(undecided.Status.Conditions) > 0 {
		t.Errorf("%+v", undecided.Status)
	}
}

// CertificateSigningRequests name a SampleClusterIssuer, whose CA is beside the
// controller.
func TestCertificateSigningRequest(t *testing.T) {
	w := start(t)
	w.issue(t)
	secret, root := newCA(t, "sample-issuer", "cluster-ca")
	key := newKey(t)
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: csrOf(t, "web.example.com", key), SignerName: "sampleclusterissuers.sample-issuer.example.com/all",
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}
	w.create(t, secret, csr, &v1alpha1.SampleClusterIssuer{
		ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: v1alpha1.IssuerSpec{SecretName: "cluster-ca"},
	})
	w.kubectl(t, "certificate", "approve", "web")
	eventually(t, "there is a certificate", func() bool {
		if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(csr), csr); err != nil {
			t.Fatal(err)
		}
		return len(csr.Status.Certificate) > 0
	})
	verify(t, csr.Status.Certificate, root, key.Public())
}

// Of two processes one works. When it ends, the other one does.
func TestLeaderElection(t *testing.T) {
	w := start(t)
	stopFirst := w.issue(t)
	first := w.leader(t, "")
	w.issue(t)
	secret, root := newCA(t, "default", "sample-ca")
	key := newKey(t)
	w.create(t, secret, sample(), request(t, "one", "one.example.com", key))
	verify(t, w.becomes(t, "one", cmv1.CertificateRequestReasonIssued).Status.Certificate, root, key.Public())
	if now := w.leader(t, ""); now != first {
		t.Errorf("%s leads, and %s did", now, first)
	}
	stopFirst()
	w.leader(t, first)
	w.create(t, request(t, "two", "two.example.com", key))
	verify(t, w.becomes(t, "two", cmv1.CertificateRequestReasonIssued).Status.Certificate, root, key.Public())
}

// leader waits until a process other than not is the leader, and returns it.
func (w world) leader(t *testing.T, not string) string {
	t.Helper()
	holder := ""
	eventually(t, "somebody leads", func() bool {
		lease := &coordinationv1.Lease{}
		err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: "sample-issuer", Name: "sample-issuer.example.com"}, lease)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		if lease.Spec.HolderIdentity != nil {
			holder = *lease.Spec.HolderIdentity
		}
		return holder != "" && holder != not
	})
	return holder
}
