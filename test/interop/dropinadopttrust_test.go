package interop

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// deployedTrustManager is what trust-manager's chart deploys. CA is that of its webhook.
const deployedTrustManager = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: trust-manager
  namespace: cert-manager
  labels: {app.kubernetes.io/name: trust-manager, app.kubernetes.io/instance: trust-manager, app.kubernetes.io/version: v0.25.0}
spec:
  replicas: 1
  selector: {matchLabels: {app: trust-manager}}
  template:
    metadata: {labels: {app: trust-manager}}
    spec:
      serviceAccountName: trust-manager
      containers:
      - name: trust-manager
        image: quay.io/jetstack/trust-manager:v0.25.0
        args:
        - --log-format=text
        - --log-level=1
        - --metrics-port=9402
        - --readiness-probe-port=6060
        - --leader-elect=true
        - --leader-election-lease-duration=15s
        - --trust-namespace=cert-manager
        - --webhook-host=0.0.0.0
        - --webhook-port=6443
        - --webhook-certificate-dir=/tls
        - --secret-targets-enabled=true
---
apiVersion: v1
kind: Service
metadata: {name: trust-manager, namespace: cert-manager, labels: {app.kubernetes.io/name: trust-manager, app.kubernetes.io/instance: trust-manager}}
spec:
  ports: [{name: webhook, port: 443, protocol: TCP, targetPort: 6443}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: trust-manager, labels: {app.kubernetes.io/name: trust-manager, app.kubernetes.io/instance: trust-manager}}
webhooks:
- name: trust.cert-manager.io
  rules: [{apiGroups: [trust.cert-manager.io], apiVersions: [v1alpha1], operations: [CREATE, UPDATE], resources: [bundles]}]
  admissionReviewVersions: [v1]
  timeoutSeconds: 5
  sideEffects: None
  clientConfig: {caBundle: CA, service: {namespace: cert-manager, name: trust-manager, path: /validate-trust-cert-manager-io-v1alpha1-bundle}}
`

// webhookCertificate writes a certificate for a Service to a folder, and returns it in PEM.
func webhookCertificate(t *testing.T, folder, host string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(10 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(crand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	encodedKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	write(t, filepath.Join(folder, "tls.crt"), string(text))
	write(t, filepath.Join(folder, "tls.key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encodedKey})))
	return text
}

// certplane adopt moves the Bundles from trust-manager to certplane and back. No target is written,
// also none with keystores and none in Secrets, and a webhook validates at every moment.
func TestDropInAdoptTrustManager(t *testing.T) {
	d := startDropIn(t, "", "--enable-aggregator-routing=true")
	r := newRandomBundles(t, 7)
	d.roots = filepath.Join(filepath.Dir(d.config), "roots.json")
	r.defaultPackage(t, d.roots)
	stop(t, d.startBundles(t, r, 1))
	d.kubectl(t, "delete", "bundle", "bundle-0")
	count := 0
	for count < 20 {
		b := r.bundle(fmt.Sprintf("bundle-%d", count+1))
		if !strings.Contains(fmt.Sprint(b), "useDefaultCAs") { // certplane gets the package by hand
			d.createAll(t, b)
			count++
		}
	}
	folder := t.TempDir()
	ca := webhookCertificate(t, folder, "trust-manager.cert-manager.svc")
	_, port := splitAddress(t, freeAddress(t))
	p := &pods{d: d, running: map[string]*process{}, account: "trust-manager"}
	p.start = map[string]func() *process{
		"cert-manager/trust-manager": func() *process {
			running := d.trustManager(t, "-lease-namespace", "cert-manager", "-webhook-port", port, "-webhook-certificate-dir", folder)
			eventually(t, "its webhook listens", func() bool {
				connection, err := net.Dial("tcp", "127.0.0.1:"+port)
				if err != nil {
					return false
				}
				connection.Close()
				return true
			})
			d.serveAt(t, "cert-manager", "trust-manager", port)
			return running
		},
		"certplane-system/certplane-controllers": func() *process { return p.startOwn(t) },
	}
	const path = "/apis/trust.cert-manager.io/v1alpha1/bundles"
	newProbe := func() *admissionProbe {
		bad := r.bundle("probe")
		bad["spec"].(map[string]any)["sources"] = []any{map[string]any{"configMap": map[string]any{"name": "none"}}} // without a key
		return &admissionProbe{path: path, good: r.bundle("probe"), bad: bad, admitted: `"kind":"Bundle"`, refused: `admission webhook \"trust.cert-manager.io\" denied the request: `}
	}
	install := func() {
		d.apply(t, strings.ReplaceAll(deployedTrustManager, "CA,", base64.StdEncoding.EncodeToString(ca)+","))
		p.reconcile(t)
		probe, wrong := newProbe(), ""
		defer func() { t.Logf("installed; the last wrong answer was %q", wrong) }()
		eventually(t, "the webhook of trust-manager validates", func() bool {
			for _, good := range []bool{true, false} {
				if answer := probe.wrongIf(t, d, good); answer != "" {
					wrong = answer
					return false
				}
			}
			return true
		})
	}
	holds := func(ofCertplane bool) {
		t.Helper()
		at := "/apis/coordination.k8s.io/v1/namespaces/cert-manager/leases/trust-manager-leader-election"
		eventually(t, "the next program holds the Lease", func() bool {
			got := d.do(t, call{method: http.MethodGet, path: at})
			if got.Code != http.StatusOK {
				return false
			}
			holder, _ := got.object(t)["spec"].(map[string]any)["holderIdentity"].(string)
			return holder != "" && strings.HasPrefix(holder, "certplane-system/") == ofCertplane
		})
	}
	syncs := func(who string) {
		t.Helper()
		name := newcomer(who) + "-bundle"
		d.createAll(t, map[string]any{
			"apiVersion": "trust.cert-manager.io/v1alpha1", "kind": "Bundle", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"sources": []any{map[string]any{"inLine": r.roots()}}, "target": map[string]any{"configMap": map[string]any{"key": "ca.crt"}}},
		})
		eventually(t, who+" syncs a new Bundle", func() bool { n, all := d.synced(t, name); return n == 1 && all })
	}
	install()
	holds(false)
	eventually(t, "trust-manager has synced all Bundles", func() bool { n, all := d.synced(t, "bundle-"); return n == count && all })
	written := filepath.Join(t.TempDir(), "move")
	t.Logf("the plan is\n%s", d.adopt(t, "trust-manager", "--write", written).succeeded(t))

	for round, who := range []string{"certplane", "again"} {
		probe := newProbe()
		stopProbe := probe.start(t, d)
		d.begin(t, who)
		before := d.state(t, bundleKinds...)
		if round == 0 { // back before step 6
			for _, number := range []string{"1", "2", "3", "4", "5"} {
				taken := d.adopt(t, "trust-manager", append([]string{"--run", "--watch", "1s", "--step", number}, asImage...)...)
				p.while(t, taken, nil)
				taken.succeeded(t)
			}
		} else {
			p.allSteps(t, "trust-manager")
		}
		holds(true)
		syncs(who)
		d.unchanged(t, before)
		d.untouched(t, bundleKinds...)
		said := d.adopt(t, "trust-manager", "--verify", filepath.Join(written, "before.json")).succeeded(t)
		if strings.Contains(said, "has changed") {
			t.Errorf("verified:\n%s", said)
		}
		stopProbe()
		probe.judge(t)

		if round == 1 {
			install()
			holds(true)
		}
		probe = newProbe()
		stopProbe = probe.start(t, d)
		d.begin(t, who+"-back")
		before = d.state(t, bundleKinds...)
		p.back(t, "trust-manager")
		holds(false)
		syncs(who + "-back")
		d.unchanged(t, before)
		stopProbe()
		probe.judge(t)
	}

	d.begin(t, "by-hand")
	before := d.state(t, bundleKinds...)
	written = filepath.Join(t.TempDir(), "by-hand")
	d.adopt(t, "trust-manager", "--write", written).succeeded(t)
	p.byHand(t, written)
	holds(true)
	syncs("by-hand")
	d.unchanged(t, before)
	d.untouched(t, bundleKinds...)
}
