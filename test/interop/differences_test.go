package interop

import (
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const (
	csrs  = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	table = "application/json;as=Table;v=v1;g=meta.k8s.io"
)

// Every answer that a client can get must be kube-apiserver's: code, warnings and body, to
// the letter of its messages. The names of subtests are the names of the cases.
func TestAnswersAreKubernetes(t *testing.T) {
	servers := startServers(t)
	f := newFixture(t)
	for name, spec := range f.specs() {
		t.Run("create/"+name, func(t *testing.T) {
			servers.same(t, call{method: http.MethodPost, path: csrs, body: f.csr("spec-"+strings.ReplaceAll(name, " ", "-"), spec)})
		})
	}
	for name, edit := range metadataEdits {
		t.Run("metadata/"+name, func(t *testing.T) {
			object := f.csr("metadata-"+strings.ReplaceAll(name, " ", "-"), nil)
			edit(object["metadata"].(map[string]any))
			servers.same(t, call{method: http.MethodPost, path: csrs, body: object})
		})
	}
	// One object goes through its life on both servers.
	servers.same(t, call{method: http.MethodPost, path: csrs, body: f.csr("life", nil)})
	for _, step := range f.life() {
		t.Run("life/"+step.name, func(t *testing.T) {
			servers.sameUpdate(t, csrs+"/life", step.subresource, step.edit, step.user)
		})
	}
	for name, c := range f.calls() {
		t.Run("call/"+name, func(t *testing.T) { servers.same(t, c) })
	}
	t.Run("call/discovery", func(t *testing.T) {
		discovery := call{method: http.MethodGet, path: "/apis/certificates.k8s.io/v1"}
		compare(t, requestsAlone(servers.ours.do(t, discovery)), requestsAlone(servers.peer.do(t, discovery)))
	})
}

// requestsAlone reduces a version's resources to those of
// CertificateSigningRequests: the other kinds came to v1 with Kubernetes 1.37.
func requestsAlone(a answer) answer {
	body, ok := a.Body.(map[string]any)
	if !ok {
		return a
	}
	resources, _ := body["resources"].([]any)
	body["resources"] = slices.DeleteFunc(resources, func(resource any) bool {
		return resource.(map[string]any)["kind"] != "CertificateSigningRequest"
	})
	return a
}

// fixture holds what cases are made from.
type fixture struct {
	request     string // base64 of the PEM of a good PKCS#10 request
	masters     string // one for the group system:masters
	certificate string // base64 of the PEM of some certificate
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	request := func(args ...string) string {
		object := manifest(t, append([]string{"--signer", "example.com/x"}, args...)...)
		return object["spec"].(map[string]any)["request"].(string)
	}
	return fixture{
		request:     request("--cn", "alice"),
		masters:     request("--cn", "root", "--org", "system:masters"),
		certificate: encode(selfSigned),
	}
}

// csr is a valid request with some fields of its spec replaced; nil removes.
func (f fixture) csr(name string, fields map[string]any) map[string]any {
	spec := map[string]any{"request": f.request, "signerName": "example.com/x", "usages": []string{"client auth"}}
	maps.Copy(spec, fields)
	maps.DeleteFunc(spec, func(_ string, value any) bool { return value == nil })
	return map[string]any{
		"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
		"metadata": map[string]any{"name": name}, "spec": spec,
	}
}

func (f fixture) specs() map[string]map[string]any {
	pemText, _ := base64.StdEncoding.DecodeString(f.request)
	signer := func(name string) map[string]any { return map[string]any{"signerName": name} }
	domain := strings.Repeat(strings.Repeat("a", 63)+".", 3) + strings.Repeat("a", 61)
	return map[string]map[string]any{
		"as it is":               {},
		"no request":             {"request": nil},
		"empty request":          {"request": ""},
		"junk":                   {"request": encode("junk")},
		"another label":          {"request": encode(strings.ReplaceAll(string(pemText), "CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"))},
		"twice encoded":          {"request": encode(f.request)},
		"text before":            {"request": encode("text\n" + string(pemText))},
		"text after":             {"request": encode(string(pemText) + "text")},
		"no usages":              {"usages": nil},
		"empty usages":           {"usages": []string{}},
		"unknown usages":         {"usages": []string{"x", "x"}},
		"duplicate usages":       {"usages": []string{"any", "any"}},
		"no signer":              {"signerName": nil},
		"legacy signer":          signer("kubernetes.io/legacy-unknown"),
		"signer without slash":   signer("abc"),
		"signer with two":        signer("a.b/c/d"),
		"signer of one label":    signer("abc/x"),
		"signer without path":    signer("a.b/"),
		"signer ends in hyphen":  signer("a.b/x-"),
		"signer is a hyphen":     signer("a.b/-"),
		"signer in upper case":   signer("A.b/X"),
		"signer with underscore": signer("a.b/x_y"),
		"signer with star":       signer("a.b/*"),
		"long path":              signer("a.b/" + strings.Repeat("x", 600)),
		"long domain":            signer(strings.Repeat("x.", 130) + "com/x"),
		"long label":             signer(strings.Repeat("x", 66) + ".com/x"),
		"longest signer":         signer(domain + "/" + strings.Repeat("b", 63) + "." + strings.Repeat("c", 253)),
		"too long a signer":      signer(domain + "/" + strings.Repeat("b", 63) + "." + strings.Repeat("c", 253) + ".toolong"),
		"no time":                {"expirationSeconds": 0},
		"negative time":          {"expirationSeconds": -1},
		"599 seconds":            {"expirationSeconds": 599},
		"600 seconds":            {"expirationSeconds": 600},
		"too large a number":     {"expirationSeconds": 1 << 31},
		"text for a number":      {"expirationSeconds": "x"},
		"all wrong":              {"request": encode("junk"), "usages": []string{"x"}, "signerName": "q", "expirationSeconds": 1},
		"masters":                {"request": f.masters, "signerName": "kubernetes.io/kube-apiserver-client"},
		"masters elsewhere":      {"request": f.masters},
		"forged requester":       {"username": "root", "uid": "1", "groups": []string{"system:masters"}},
		"unknown field":          {"foo": 1},
	}
}

var metadataEdits = map[string]func(metadata map[string]any){
	"upper case":          set("name", "Upper"),
	"blank":               set("name", "with blank"),
	"colon":               set("name", "a:b"),
	"long":                set("name", strings.Repeat("x", 300)),
	"percent":             set("name", "a%b"),
	"slash":               set("name", "a/b"),
	"dots":                set("name", ".."),
	"no name":             set("name", ""),
	"generation":          set("generation", 5),
	"negative generation": set("generation", -1),
	"namespace":           set("namespace", "default"),
	"finalizer":           set("finalizers", []string{"bad"}),
	"good finalizers":     set("finalizers", []string{"example.com/f", "orphan"}),
	"label":               set("labels", map[string]any{"-": "x y"}),
}

func set(field string, value any) func(map[string]any) {
	return func(object map[string]any) { object[field] = value }
}

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
