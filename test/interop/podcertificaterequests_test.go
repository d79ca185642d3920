package interop

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

const podRequests = "/apis/certificates.k8s.io/v1beta1/namespaces/default/podcertificaterequests"

// For PodCertificateRequests, clients may rely on codes and on which fields are
// wrong, in which way and in which order; the words are our own.
func TestPodCertificateRequestsAreKubernetes(t *testing.T) {
	servers := startServers(t, "--feature-gates=PodCertificateRequest=true", "--runtime-config=certificates.k8s.io/v1beta1=true")
	f := newPodFixture(t, servers)
	for name, fields := range f.specs() {
		t.Run("create/"+name, func(t *testing.T) { f.sameCreate(t, name, fields) })
	}
	for name, status := range f.statuses() {
		t.Run("status/"+name, func(t *testing.T) { f.sameStatus(t, name, status) })
	}
	for from, first := range f.outcomes() {
		for to, second := range f.outcomes() {
			t.Run("status/"+from+" to "+to, func(t *testing.T) { f.sameStatus(t, from+" to "+to, first, second) })
		}
	}
}

// podFixture is a pod on each server, and the key of its certificate.
type podFixture struct {
	servers servers
	spec    map[*apiServer]map[string]any // of a good request
	key     *ecdsa.PrivateKey
}

func newPodFixture(t *testing.T, servers servers) podFixture {
	t.Helper()
	f := podFixture{servers: servers, spec: map[*apiServer]map[string]any{}, key: newKey(t, elliptic.P256())}
	for _, server := range []*apiServer{servers.ours, servers.peer} {
		make := func(path, object string) string {
			a := server.do(t, call{method: http.MethodPost, path: path, body: object})
			if a.Code == http.StatusConflict { // the default account
				a = server.do(t, call{method: http.MethodGet, path: path + "/default"})
			}
			return a.object(t)["metadata"].(map[string]any)["uid"].(string)
		}
		account := make("/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"default"}}`)
		node := make("/api/v1/nodes", `{"metadata":{"name":"node1"}}`)
		pod := make("/api/v1/namespaces/default/pods", `{"metadata":{"name":"p"},"spec":{"nodeName":"node1","serviceAccountName":"default",
			"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v","projected":{"sources":[{"podCertificate":{
			"signerName":"example.com/signer","keyType":"ECDSAP256","credentialBundlePath":"b"}}]}}]}}`)
		f.spec[server] = map[string]any{
			"signerName": "example.com/signer", "podName": "p", "podUID": pod, "serviceAccountName": "default", "serviceAccountUID": account,
			"nodeName": "node1", "nodeUID": node, "stubPKCS10Request": stubOf(t, f.key),
		}
	}
	return f
}

func newKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func stubOf(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(der)
}

// specs returns fields that replace the fields of a valid request; nil removes a field.
func (f podFixture) specs() map[string]map[string]any {
	large := base64.StdEncoding.EncodeToString(make([]byte, 10241))
	junk := base64.StdEncoding.EncodeToString([]byte("junk"))
	long := strings.Repeat("x", 129)
	p224, _ := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	weak, _ := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, p224)
	pkix, _ := x509.MarshalPKIXPublicKey(f.key.Public())
	key := base64.StdEncoding.EncodeToString(pkix)
	annotated := func(key string) map[string]any {
		return map[string]any{"unverifiedUserAnnotations": map[string]any{key: "v"}}
	}
	return map[string]map[string]any{
		"good":                    {},
		"an hour":                 {"maxExpirationSeconds": 3600},
		"no signer":               {"signerName": ""},
		"bad signer":              {"signerName": "signer"},
		"no names":                {"podName": "", "serviceAccountName": "", "nodeName": ""},
		"bad names":               {"podName": "A", "serviceAccountName": "b_", "nodeName": "c/d"},
		"no uids":                 {"podUID": "", "serviceAccountUID": "", "nodeUID": ""},
		"long uids":               {"podUID": long, "serviceAccountUID": long, "nodeUID": long},
		"all empty":               {"signerName": "", "podName": "", "podUID": "", "serviceAccountName": "", "serviceAccountUID": "", "nodeName": "", "nodeUID": "", "stubPKCS10Request": nil},
		"too short":               {"maxExpirationSeconds": 3599},
		"too long":                {"maxExpirationSeconds": 7862401},
		"too long for kubernetes": {"signerName": "kubernetes.io/x", "maxExpirationSeconds": 86401},
		"no key":                  {"stubPKCS10Request": nil},
		"two forms":               {"pkixPublicKey": key, "proofOfPossession": junk},
		"a key without proof":     {"stubPKCS10Request": nil, "pkixPublicKey": key},
		"a wrong proof":           {"stubPKCS10Request": nil, "pkixPublicKey": key, "proofOfPossession": junk},
		"a junk key":              {"stubPKCS10Request": nil, "pkixPublicKey": junk, "proofOfPossession": junk},
		"a large key":             {"stubPKCS10Request": nil, "pkixPublicKey": large, "proofOfPossession": junk},
		"a large proof":           {"stubPKCS10Request": nil, "pkixPublicKey": key, "proofOfPossession": large},
		"a large key and proof":   {"stubPKCS10Request": nil, "pkixPublicKey": large, "proofOfPossession": large},
		"a junk stub":             {"stubPKCS10Request": junk},
		"a large stub":            {"stubPKCS10Request": large},
		"a weak stub":             {"stubPKCS10Request": base64.StdEncoding.EncodeToString(weak)},
		"no prefix":               annotated("key"),
		"two slashes":             annotated("a.b/c/d"),
		"no annotation key":       annotated(""),
		"a long prefix":           annotated(strings.Repeat("a.", 127) + "b/c"),
		"large annotations":       {"unverifiedUserAnnotations": map[string]any{"a.b/c": strings.Repeat("x", 262145)}},
		"bad name and lifetime":   {"podName": "A", "maxExpirationSeconds": 1},
		"bad lifetime and no key": {"maxExpirationSeconds": 1, "stubPKCS10Request": nil},
	}
}

// certificate returns one for the key, and the fields of a status with it.
func (f podFixture) certificate(edit func(*x509.Certificate)) map[string]any {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	now := time.Now().Truncate(time.Second)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now, NotAfter: now.Add(2 * time.Hour)}
	if edit != nil {
		edit(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, &x509.Certificate{}, f.key.Public(), key)
	if err != nil {
		panic(err)
	}
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	return map[string]any{
		"conditions":       outcomeOf("Issued"),
		"certificateChain": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		"notBefore":        at(template.NotBefore), "notAfter": at(template.NotAfter), "beginRefreshAt": at(template.NotBefore.Add(30 * time.Minute)),
	}
}

func outcomeOf(kinds ...string) []any {
	var all []any
	for _, kind := range kinds {
		all = append(all, map[string]any{"type": kind, "status": "True", "reason": "Test", "lastTransitionTime": "2030-01-01T00:00:00Z"})
	}
	return all
}

func with(status map[string]any, fields map[string]any) map[string]any {
	maps.Copy(status, fields)
	maps.DeleteFunc(status, func(_ string, value any) bool { return value == nil })
	return status
}

// denial returns a Denied condition with some fields replaced; nil removes.
func denial(fields map[string]any) map[string]any {
	return map[string]any{"conditions": []any{with(outcomeOf("Denied")[0].(map[string]any), fields)}}
}

// statuses contains no two conditions of one type, and none without a type or a
// status: for these, Kubernetes 1.37 answers differently than 1.36.
func (f podFixture) statuses() map[string]map[string]any {
	good := func() map[string]any { return f.certificate(nil) }
	dns := func(name string) map[string]any {
		return f.certificate(func(c *x509.Certificate) { c.DNSNames = []string{name} })
	}
	lasting := func(from, lifetime time.Duration) map[string]any {
		return f.certificate(func(c *x509.Certificate) { c.NotBefore = c.NotBefore.Add(from); c.NotAfter = c.NotBefore.Add(lifetime) })
	}
	block := func(label, content string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: label, Bytes: []byte(content)}))
	}
	stamp := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	return map[string]map[string]any{
		"nothing":                  {},
		"good":                     good(),
		"unknown type":             denial(map[string]any{"type": "Approved"}),
		"unknown type, false":      denial(map[string]any{"type": "Approved", "status": "False"}),
		"false":                    denial(map[string]any{"status": "False"}),
		"unknown":                  denial(map[string]any{"status": "Unknown"}),
		"odd status":               denial(map[string]any{"status": "Maybe"}),
		"no reason":                denial(map[string]any{"reason": nil}),
		"bad reason":               denial(map[string]any{"reason": "a b"}),
		"no time":                  denial(map[string]any{"lastTransitionTime": nil}),
		"long message":             denial(map[string]any{"message": strings.Repeat("x", 32769)}),
		"denied and failed":        {"conditions": outcomeOf("Denied", "Failed")},
		"three":                    {"conditions": outcomeOf("Issued", "Denied", "Failed")},
		"unknown and known":        {"conditions": outcomeOf("Approved", "Denied")},
		"chain alone":              {"certificateChain": "x"},
		"time alone":               {"notBefore": stamp(0)},
		"denied with chain":        with(good(), map[string]any{"conditions": outcomeOf("Denied")}),
		"failed with time":         {"conditions": outcomeOf("Failed"), "notAfter": stamp(0)},
		"no chain":                 with(good(), map[string]any{"certificateChain": nil}),
		"junk chain":               with(good(), map[string]any{"certificateChain": "junk"}),
		"large chain":              with(good(), map[string]any{"certificateChain": strings.Repeat("x", 102401)}),
		"other label":              with(good(), map[string]any{"certificateChain": block("KEY", "x")}),
		"junk certificate":         with(good(), map[string]any{"certificateChain": block("CERTIFICATE", "x")}),
		"other label after it":     with(good(), map[string]any{"certificateChain": good()["certificateChain"].(string) + block("KEY", "x")}),
		"no times":                 with(good(), map[string]any{"notBefore": nil, "notAfter": nil, "beginRefreshAt": nil}),
		"no refresh":               with(good(), map[string]any{"beginRefreshAt": nil}),
		"other start":              with(good(), map[string]any{"notBefore": stamp(time.Minute)}),
		"other end":                with(good(), map[string]any{"notAfter": stamp(time.Minute)}),
		"early refresh":            with(good(), map[string]any{"beginRefreshAt": stamp(5 * time.Minute)}),
		"late refresh":             with(good(), map[string]any{"beginRefreshAt": stamp(115 * time.Minute)}),
		"two dots":                 dns("a..b"),
		"dot in front":             dns(".a"),
		"dot behind":               dns("a."),
		"dot behind, and no times": with(dns("a."), map[string]any{"notBefore": nil}),
		"odd mail": f.certificate(func(c *x509.Certificate) {
			c.EmailAddresses = []string{"nobody"}
			c.DNSNames = []string{"a.", "b."}
		}),
		"old":         lasting(-6*time.Minute, 2*time.Hour),
		"future":      lasting(6*time.Minute, 2*time.Hour),
		"50 minutes":  lasting(0, 50*time.Minute),
		"25 hours":    lasting(0, 25*time.Hour),
		"24 hours":    lasting(0, 24*time.Hour),
		"another key": with(podFixture{key: f.other()}.certificate(nil), nil),
	}
}

func (f podFixture) other() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

func (f podFixture) outcomes() map[string]map[string]any {
	return map[string]map[string]any{
		"pending": {}, "denied": {"conditions": outcomeOf("Denied")}, "failed": {"conditions": outcomeOf("Failed")},
		"issued": f.certificate(nil),
	}
}

func (f podFixture) request(server *apiServer, name string, fields map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "certificates.k8s.io/v1beta1", "kind": "PodCertificateRequest",
		"metadata": map[string]any{"name": objectName(name)}, "spec": with(maps.Clone(f.spec[server]), fields),
	}
}

func objectName(name string) string {
	return strings.NewReplacer(" ", "-", ",", "").Replace(name)
}

// sameCreate creates a request on both servers and compares which fields are
// wrong.
func (f podFixture) sameCreate(t *testing.T, name string, fields map[string]any) {
	t.Helper()
	create := func(server *apiServer) []string {
		return wrongs(t, server.do(t, call{method: http.MethodPost, path: podRequests, body: f.request(server, "create-"+name, fields)}))
	}
	if ours, peer := create(f.servers.ours), create(f.servers.peer); !reflect.DeepEqual(ours, peer) && !f.untrue(fields, ours, peer) {
		t.Errorf("certplane and kube-apiserver differ\nours: %q\npeer: %q", ours, peer)
	}
}

// untrue reports whether only the peer accepts a request that contradicts its
// pod.
func (f podFixture) untrue(fields map[string]any, ours, peer []string) bool {
	return len(fields) > 0 && ours[0] == "403" && peer[0] == "201"
}

// sameStatus creates a request on both servers, writes one status after the
// other and compares the last answers.
func (f podFixture) sameStatus(t *testing.T, name string, statuses ...map[string]any) {
	t.Helper()
	write := func(server *apiServer) []string {
		path := podRequests + "/" + objectName("status-"+name)
		a := server.do(t, call{method: http.MethodPost, path: podRequests, body: f.request(server, "status-"+name, nil)})
		for _, status := range statuses {
			object := server.do(t, call{method: http.MethodGet, path: path}).object(t)
			object["status"] = status
			a = server.do(t, call{method: http.MethodPut, path: path + "/status", body: object})
		}
		return wrongs(t, a)
	}
	if ours, peer := write(f.servers.ours), write(f.servers.peer); !reflect.DeepEqual(ours, peer) {
		t.Errorf("certplane and kube-apiserver differ\nours: %q\npeer: %q", ours, peer)
	}
}

// wrongs returns the code of an answer and its causes.
func wrongs(t *testing.T, a answer) []string {
	t.Helper()
	all := []string{fmt.Sprint(a.Code)}
	details, _ := a.object(t)["details"].(map[string]any)
	causes, _ := details["causes"].([]any)
	for _, cause := range causes {
		fields := cause.(map[string]any)
		all = append(all, fmt.Sprint(fields["reason"], " ", fields["field"]))
	}
	return all
}
