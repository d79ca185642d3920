package acme

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
)

// ownEndpoints are two endpoints of certplane's own ACME server: the requests of the
// second one wait for a person. Accounts need an external key, which preauthorizes a part
// of the names.
const ownEndpoints = `
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: default, name: web}
---
apiVersion: certplane.dev/v1alpha1
kind: Signer
metadata: {name: hosts}
spec:
  signerName: example.com/hosts
  requests: [CertificateSigningRequest]
  ca: {generated: {}}
  profile:
    subject: {commonName: request.subject.commonName}
    names: {dnsNames: request.dnsNames}
    usages: [digital signature, key encipherment, server auth]
    keyTypes: [RSA2048, ECDSAP256]
---
apiVersion: certplane.dev/v1alpha1
kind: AcmeEndpoint
metadata: {name: automatic}
spec:
  accounts: {admission: ExternalKey}
  identifiers: {dns: {allow: ["*.example.com"]}}
  challenges: {types: [dns-01], dns: {servers: ["RESOLVER"]}, attempts: {interval: 1s}}
  profiles: [{name: server, signer: {name: example.com/hosts}}]
---
apiVersion: certplane.dev/v1alpha1
kind: AcmeEndpoint
metadata: {name: reviewed}
spec:
  accounts: {admission: ExternalKey}
  identifiers: {dns: {allow: ["*.example.com"]}}
  challenges: {types: [dns-01], dns: {servers: ["RESOLVER"]}, attempts: {interval: 1s}}
  approval: {mode: Manual}
  profiles: [{name: server, signer: {name: example.com/hosts}}]
---
apiVersion: certplane.dev/v1alpha1
kind: AcmeExternalKey
metadata: {namespace: default, name: automatic}
spec:
  endpoint: automatic
  serviceAccount: web
  secret: {name: eab-automatic}
  preauthorized: {dns: ["*.known.example.com"]}
---
apiVersion: certplane.dev/v1alpha1
kind: AcmeExternalKey
metadata: {namespace: default, name: reviewed}
spec:
  endpoint: reviewed
  serviceAccount: web
  secret: {name: eab-reviewed}
  preauthorized: {dns: ["*.known.example.com"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: acme-web}
rules:
- {apiGroups: [certplane.dev], resources: [acmeendpoints], resourceNames: [automatic, reviewed], verbs: [use]}
- {apiGroups: [certplane.dev], resources: [acmeendpoints], resourceNames: [automatic], verbs: [autoapprove]}
- {apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: acme-web}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: acme-web}
subjects: [{kind: ServiceAccount, namespace: default, name: web}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: default, name: acme}
rules:
- {apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [web], verbs: [create]}
- {apiGroups: [""], resources: [secrets], verbs: [create, get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: default, name: acme}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: acme}
subjects:
- {kind: ServiceAccount, namespace: kube-system, name: acme-orders}
- {kind: ServiceAccount, namespace: kube-system, name: acme-server}
- {kind: ServiceAccount, namespace: kube-system, name: acme-endpoints}
`

// Issuers of cert-manager and of certplane get certificates from certplane's own ACME
// server: by dns-01, for preauthorized names, and after a person has approved.
func TestOwnServer(t *testing.T) {
	names := dnstest.Start(t, dnstest.Options{}, "example.com. 300 IN SOA ns1.example.com. admin.example.com. 1 3600 600 86400 1", "example.com. 300 IN NS ns1.example.com.", "ns1.example.com. 300 IN A 127.0.0.1")
	address := apitest.FreeAddress(t)
	w := newWorld(t, pebbleOptions{resolver: names.Addr}, func(cfg *server.Config) {
		cfg.Controllers = noCertManager
		cfg.ACMEServer.Listen, cfg.ACMEServer.ExternalURL = address, "https://"+address
		cfg.ACME.DNS01.RecursiveNameservers = []string{names.Addr}
		cfg.ACME.DNS01.RecursiveNameserversOnly = true
		cfg.ACME.DNS01.PropagationDelay = &metav1.Duration{}
	})
	w.apply(ingresses)
	w.apply(strings.ReplaceAll(ownEndpoints, "RESOLVER", names.Addr))
	bundle := rootsOf(t, "https://"+address+"/acme/automatic/roots.pem")
	for _, p := range []program{certManager, standalone} {
		t.Run(p.name, func(t *testing.T) {
			stop := p.run(w, everything...)
			prefix := strings.ReplaceAll(p.name, " ", "-") + "-"
			for _, endpoint := range []string{"automatic", "reviewed"} {
				w.ownIssuer(prefix+endpoint, "https://"+address+"/acme/"+endpoint+"/directory", endpoint, bundle, names.Addr)
			}
			// cert-manager waits for a minute after it has seen a record.
			w.ordered(prefix+"wildcard", prefix+"automatic", "*.example.com")
			w.ordered(prefix+"known", prefix+"automatic", "a.known.example.com")
			if leaf := w.issued(prefix + "known"); leaf.Issuer.CommonName == "" || leaf.DNSNames[0] != "a.known.example.com" {
				t.Errorf("issued by %s for %v", leaf.Issuer, leaf.DNSNames)
			}
			w.ordered(prefix+"reviewed", prefix+"reviewed", "b.known.example.com")
			w.approvePending()
			w.issued(prefix + "reviewed")
			w.issued(prefix + "wildcard")
			stop()
		})
	}
}

func rootsOf(t *testing.T, url string) (roots []byte) {
	t.Helper()
	plain := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	eventually(t, "the roots of the server are known", func() bool {
		answer, err := plain.Get(url)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		roots, err = io.ReadAll(answer.Body)
		return err == nil && answer.StatusCode == http.StatusOK
	})
	return roots
}

// ownIssuer makes an Issuer that is bound to an external key, whose records are
// dynamic updates, and waits until it is ready.
func (w *world) ownIssuer(name, directory, key string, bundle []byte, resolver string) {
	w.t.Helper()
	eventually(w.t, "the external key has its Secret", func() bool {
		return w.admin.Get(w.t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "eab-" + key}, &corev1.Secret{}) == nil
	})
	w.create(&cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{ACME: &acmev1.ACMEIssuer{
		Server: directory, CABundle: bundle, Email: "admin@example.com",
		PrivateKey: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: name + "-account"}},
		ExternalAccountBinding: &acmev1.ACMEExternalAccountBinding{
			KeyID: "default." + key, Key: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "eab-" + key}, Key: "hmac"},
		},
		Solvers: []acmev1.ACMEChallengeSolver{{DNS01: &acmev1.ACMEChallengeSolverDNS01{RFC2136: &acmev1.ACMEIssuerDNS01ProviderRFC2136{Nameserver: resolver}}}},
	}}}})
	w.issuerReady(cmmeta.IssuerReference{Name: name})
}

// ordered creates a Certificate for a name.
func (w *world) ordered(name, issuer, dnsName string) {
	w.t.Helper()
	w.create(&cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, Spec: cmv1.CertificateSpec{
		SecretName: name + "-tls", DNSNames: []string{dnsName}, IssuerRef: cmmeta.IssuerReference{Name: issuer},
	}})
}

// approvePending approves the request of an order that waits, as a person does.
func (w *world) approvePending() {
	w.t.Helper()
	admin := apitest.Client(w.t, w.Admin(w.t)).CertificatesV1().CertificateSigningRequests()
	eventually(w.t, "a request is approved", func() bool {
		list, err := admin.List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, csr := range list.Items {
			if len(csr.Status.Conditions) > 0 {
				continue
			}
			csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Person", Message: "approved"})
			if _, err := admin.UpdateApproval(w.t.Context(), csr.Name, &csr, metav1.UpdateOptions{}); err != nil {
				w.t.Fatal(err)
			}
			return true
		}
		return false
	})
}
