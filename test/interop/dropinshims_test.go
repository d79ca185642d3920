package interop

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
)

// shimKinds are the kinds that a takeover of the shims must not write.
var shimKinds = []string{"certificates", "certificaterequests", "secrets", "ingresses", "gateways", "listenersets"}

const shimControllers = "issuers,certificaterequests,certificaterequests-approver,certificates,orders,challenges,ingress-shim,gateway-shim"

// issuersOfShims are a SelfSigned Issuer, and a CA whose certificate it issues.
const issuersOfShims = `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: self-signed, namespace: default}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: ca, namespace: default}
spec: {isCA: true, commonName: ca, secretName: ca, privateKey: {algorithm: ECDSA}, issuerRef: {name: self-signed}}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: ca, namespace: default}
spec: {ca: {secretName: ca}}
`

// annotations are what users write at Ingresses, in turn.
var annotations = []map[string]string{
	{},
	{"cert-manager.io/duration": "720h", "cert-manager.io/renew-before": "240h"},
	{"cert-manager.io/common-name": "shop.example.com", "cert-manager.io/subject-organizations": "Shop,Mail"},
	{"cert-manager.io/private-key-size": "384", "cert-manager.io/private-key-rotation-policy": "Never", "cert-manager.io/revision-history-limit": "3"},
	{"cert-manager.io/usages": "server auth,digital signature", "cert-manager.io/alt-names": "a.example.com,b.example.com"},
	{"cert-manager.io/ip-sans": "192.0.2.1", "cert-manager.io/email-sans": "web@example.com"},
	{"cert-manager.io/secret-template": `{"labels":{"team":"web"},"annotations":{"reloader":"true"}}`},
	{"acme.cert-manager.io/http01-edit-in-place": "true"},
	{"cert-manager.io/private-key-encoding": "PKCS8", "cert-manager.io/renew-before-percentage": "40"},
}

// metadataOf returns the metadata of an object of the shims, with the annotations of its turn.
func metadataOf(name string, turn int) map[string]any {
	all := map[string]string{"cert-manager.io/issuer": "ca", "cert-manager.io/private-key-algorithm": "ECDSA", "other.example.com/note": "kept"}
	maps.Copy(all, annotations[turn%len(annotations)])
	return map[string]any{"name": name, "namespace": "default", "labels": map[string]string{"app": name, "app.kubernetes.io/instance": "shop"}, "annotations": all}
}

func newIngress(name string, turn int) map[string]any {
	return map[string]any{
		"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadataOf(name, turn),
		"spec": map[string]any{
			"tls":            []any{map[string]any{"hosts": []string{name + ".example.com"}, "secretName": name}},
			"defaultBackend": map[string]any{"service": map[string]any{"name": "web", "port": map[string]any{"number": 80}}},
		},
	}
}

func listenersOf(name string) []any {
	return []any{map[string]any{
		"name": "web", "port": 443, "protocol": "HTTPS", "hostname": name + ".example.com",
		"tls": map[string]any{"mode": "Terminate", "certificateRefs": []any{map[string]any{"group": "", "kind": "Secret", "name": name}}},
	}}
}

func newGateway(name string, turn int) map[string]any {
	return map[string]any{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": metadataOf(name, turn),
		"spec": map[string]any{
			"gatewayClassName": "test", "listeners": listenersOf(name),
			"allowedListeners": map[string]any{"namespaces": map[string]any{"from": "Same"}},
		},
	}
}

// newListenerSet returns a ListenerSet that has the issuer of its Gateway.
func newListenerSet(name, gateway string) map[string]any {
	return map[string]any{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ListenerSet",
		"metadata": map[string]any{"name": name, "namespace": "default", "annotations": map[string]string{"cert-manager.io/private-key-algorithm": "ECDSA"}},
		"spec":     map[string]any{"parentRef": map[string]any{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": gateway}, "listeners": listenersOf(name)},
	}
}

// fleet is what users have in the cluster before the takeover.
type fleet struct{ ingresses, gateways, listenerSets, certificates int }

// objects returns the objects of the fleet, each in its manifest.
func (f fleet) objects() (all []map[string]any) {
	for i := range f.ingresses {
		all = append(all, newIngress(fmt.Sprintf("ingress-%d", i), i))
	}
	for i := range f.gateways {
		all = append(all, newGateway(fmt.Sprintf("gateway-%d", i), i))
	}
	for i := range f.listenerSets {
		all = append(all, newListenerSet(fmt.Sprintf("set-%d", i), fmt.Sprintf("gateway-%d", i)))
	}
	for i := range f.certificates {
		name := fmt.Sprintf("plain-%d", i)
		all = append(all, map[string]any{
			"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": map[string]any{"name": name, "namespace": "default"},
			"spec": map[string]any{
				"secretName": name, "dnsNames": []string{name + ".example.com"}, "privateKey": map[string]any{"algorithm": "ECDSA"}, "issuerRef": map[string]any{"name": "ca"},
			},
		})
	}
	return all
}

// listPath returns the path of the list that an object is in.
func listPath(object map[string]any) string {
	plural := strings.ToLower(object["kind"].(string)) + "s"
	if plural == "ingresss" {
		plural = "ingresses"
	}
	if namespace, _ := object["metadata"].(map[string]any)["namespace"].(string); object["apiVersion"] == "v1" {
		return "/api/v1/namespaces/" + namespace + "/" + plural
	}
	return kindPaths[plural]
}

// createAll creates objects of the kinds in kindPaths.
func (d *dropIn) createAll(t *testing.T, all ...map[string]any) {
	t.Helper()
	parallel(all, func(object map[string]any) {
		if made := d.do(t, call{method: http.MethodPost, path: listPath(object), body: object}); made.Code != http.StatusCreated {
			t.Errorf("creating %v: %+v", object["metadata"], made)
		}
	})
}

// ready returns how many Certificates are Ready for their present generation, and not being
// issued.
func (d *dropIn) ready(t *testing.T) (count int) {
	t.Helper()
	for _, object := range d.list(t, "certificates") {
		status, _ := object["status"].(map[string]any)
		conditions, _ := status["conditions"].([]any)
		ready, issuing := false, status["nextPrivateKeySecretName"] != nil
		for _, each := range conditions {
			one := each.(map[string]any)
			ready = ready || one["type"] == "Ready" && one["status"] == "True" && one["observedGeneration"] == object["metadata"].(map[string]any)["generation"]
			issuing = issuing || one["type"] == "Issuing" && one["status"] == "True"
		}
		if ready && !issuing {
			count++
		}
	}
	return count
}

// keysCleaned waits until the keys of certificates that have been issued are deleted.
func (d *dropIn) keysCleaned(t *testing.T) {
	t.Helper()
	path := kindPaths["secrets"] + "?labelSelector=cert-manager.io%2Fnext-private-key"
	eventually(t, "no key waits for its certificate", func() bool {
		return len(d.do(t, call{method: http.MethodGet, path: path}).object(t)["items"].([]any)) == 0
	})
}

// works creates an object of each kind, and waits until it has its certificate: by then, a
// program has also worked on the objects that were there when it started.
func (d *dropIn) works(t *testing.T, who string) {
	t.Helper()
	ready := d.ready(t)
	name := newcomer(who)
	d.createAll(t, newIngress(name+"-ingress", 1), newGateway(name+"-gateway", 0))
	d.createAll(t, newListenerSet(name+"-set", name+"-gateway"))
	eventually(t, who+" issues for new objects", func() bool { return d.ready(t) == ready+3 })
	d.keysCleaned(t)
}

// startFleet has cert-manager issue for a fleet, and returns it running.
func (d *dropIn) startFleet(t *testing.T, f fleet) *process {
	t.Helper()
	d.apply(t, issuersOfShims)
	d.createAll(t, f.objects()...)
	cm := d.certManager(t)
	want := 1 + f.ingresses + f.gateways + f.listenerSets + f.certificates
	for issued := 0; issued < want; { // each step may take as long as one wait
		step := min(issued+50, want)
		eventually(t, fmt.Sprintf("cert-manager has issued %d of %d", step, want), func() bool { issued = d.ready(t); return issued >= step })
	}
	d.keysCleaned(t)
	return cm
}

// lag changes annotations that cert-manager does not compare with a Certificate that exists.
func (d *dropIn) lag(t *testing.T, count int) {
	t.Helper()
	for i := range count {
		patch := map[string]any{"metadata": map[string]any{"annotations": map[string]string{
			"cert-manager.io/usages": "client auth", "cert-manager.io/ip-sans": "192.0.2.7", "cert-manager.io/email-sans": "late@example.com",
			"cert-manager.io/subject-countries": "NZ", "acme.cert-manager.io/http01-ingress-class": "late",
		}}}
		path := fmt.Sprintf("%s/ingress-%d", kindPaths["ingresses"], i)
		if done := d.do(t, call{method: http.MethodPatch, path: path, body: patch, contentType: "application/merge-patch+json"}); done.Code != http.StatusOK {
			t.Fatalf("%+v", done)
		}
	}
}

// certplane takes over the objects of users of cert-manager's shims, works for new ones, and
// gives all back: no certificate is issued and no object is written, in either direction. That
// holds also for Certificates that lag behind their Ingress.
func TestDropInShims(t *testing.T) {
	d := startDropIn(t, shimControllers)
	controller := d.startFleet(t, fleet{ingresses: 200, gateways: 20, listenerSets: 5})
	d.lag(t, 20)
	d.works(t, "first")
	stop(t, controller)
	d.thereAndBack(t, shimKinds, func(who string) { d.works(t, who) }, func() *process { return d.certManager(t) })
}
