package apiserver_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/apitest"
)

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
	yamlType     = "application/yaml"

	// maxBody is the library's limit for the body of a request.
	maxBody = 3 << 20
	// patience is how long a response to any request may take on a busy
	// machine. An attack on parsing or verifying takes minutes.
	patience = 10 * time.Second
)

func TestFaults(t *testing.T) {
	w := start(t)
	t.Run("bodies", w.testBodies)
	t.Run("wrong objects", w.testWrongObjects)
	t.Run("hostile requests", w.testHostileRequests)
	t.Run("truncated requests", w.testTruncatedRequests)
	t.Run("large requests", w.testLargeRequests)
	t.Run("connections", w.testConnections)
	t.Run("slow clients", w.testSlowClients)
}

// wantHealthy: whatever happened before, other clients are served.
func (w world) wantHealthy(t *testing.T) {
	t.Helper()
	begin := time.Now()
	if got := w.send(t, w.Anonymous(t), call{path: "/readyz"}); got.code != http.StatusOK {
		t.Errorf("/readyz: %d %s", got.code, got.body)
	}
	request := newCSR(t, "")
	request.GenerateName = "healthy-"
	created := apitest.Create(t, w.admin, request)
	if got := w.get(t, created.Name); got.UID != created.UID {
		t.Errorf("got %s, want %s", got.UID, created.UID)
	}
	if took := time.Since(begin); took > patience {
		t.Errorf("a normal request took %v", took)
	}
}

// fault is a call that no well-behaved client sends.
type fault struct {
	reason string
	call   call
	want   int
	text   string // is in the response
}

func (w world) testAll(t *testing.T, faults []fault) {
	for _, f := range faults {
		t.Run(f.reason, func(t *testing.T) {
			begin := time.Now()
			got := w.send(t, w.Admin(t), f.call)
			if got.code != f.want || !strings.Contains(string(got.body), f.text) {
				t.Errorf("%d %.300s\nwant %d %s", got.code, got.body, f.want, f.text)
			}
			if took := time.Since(begin); took > patience {
				t.Errorf("the answer took %v", took)
			}
			// The error repeats the value, in base64 and in two places.
			if len(got.body) > 4*len(f.call.body)+4096 {
				t.Errorf("the answer has %d bytes, for a body of %d", len(got.body), len(f.call.body))
			}
			w.wantHealthy(t)
		})
	}
}

// post returns a call that creates an object from a body of some format.
func post(format, body string) call {
	return call{path: path(v1), header: map[string]string{"Content-Type": format}, body: []byte(body)}
}

func (w world) testBodies(t *testing.T) {
	const bad, huge = http.StatusBadRequest, http.StatusRequestEntityTooLarge
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
	}
	w.testAll(t, []fault{
		{"nothing", post(jsonType, ""), bad, ""},
		{"not JSON", post(jsonType, "nonsense"), bad, "invalid character"},
		{"half of JSON", post(jsonType, `{"apiVersion":"certificates.k8s.io/v1",`), bad, "unexpected end"},
		{"JSON of another type", post(jsonType, "[]"), bad, ""},
		{"JSON null", post(jsonType, "null"), http.StatusUnprocessableEntity, "name or generateName is required"},
		{"deep JSON", post(jsonType, strings.Repeat("[", 1<<20)), bad, ""},
		{"deep JSON in a known object", post(jsonType, `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","spec":`+strings.Repeat(`{"a":`, 1<<18)), bad, ""},
		{"not protobuf", post(protobufType, "nonsense"), bad, ""},
		{"not protobuf behind the magic number", post(protobufType, "k8s\x00\xff\xff\xff\xff\xff"), bad, ""},
		{"protobuf of a huge length", post(protobufType, "k8s\x00\x0a\xff\xff\xff\xff\x7f"), bad, ""},
		{"not CBOR", post(cborType, "nonsense"), bad, ""},
		{"CBOR of a huge length", post(cborType, "\xd9\xd9\xf7\x9b\x7f\xff\xff\xff\xff\xff\xff\xff"), bad, ""},
		{"deep CBOR", post(cborType, "\xd9\xd9\xf7"+strings.Repeat("\x81", 1<<20)), bad, ""},
		{"YAML that grows", post(yamlType, bomb), bad, ""},
		{"unknown format", post("text/html", "<html>"), http.StatusUnsupportedMediaType, "the body of the request was in an unknown format"},
		{"no format", post("nonsense;;;", "{}"), http.StatusUnsupportedMediaType, ""},
		{"body over the limit", post(jsonType, strings.Repeat(" ", maxBody+1)), huge, "limit is 3145728"},
		{"protobuf over the limit", post(protobufType, "k8s\x00"+strings.Repeat("x", maxBody)), huge, "limit is 3145728"},
		{"patch over the limit", call{
			method: http.MethodPatch, path: path(v1, "x"), header: map[string]string{"Content-Type": "application/merge-patch+json"},
			body: bytes.Repeat([]byte(" "), maxBody+1),
		}, huge, "limit is 3145728"},
	})
}

func (w world) testWrongObjects(t *testing.T) {
	const bad = http.StatusBadRequest
	stored := apitest.Create(t, w.admin, newCSR(t, "stored"))
	put := func(name, body string) call {
		return call{method: http.MethodPut, path: path(v1, name), header: map[string]string{"Content-Type": jsonType}, body: []byte(body)}
	}
	object := func(apiVersion, kind, more string) string {
		return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"other"}%s}`, apiVersion, kind, more)
	}
	const version, kind = "certificates.k8s.io/v1", "CertificateSigningRequest"
	strict := post(jsonType, object(version, kind, `,"spec":{"username":"a","username":"b"}`))
	strict.path += "?fieldValidation=Strict"
	w.testAll(t, []fault{
		{"another kind", post(jsonType, object("rbac.authorization.k8s.io/v1", "ClusterRole", "")), bad, "cannot be handled as a CertificateSigningRequest"},
		{"unknown kind", post(jsonType, object(version, "Nonsense", "")), bad, `no kind \"Nonsense\" is registered`},
		{"kind that is not served", post(jsonType, object("certificates.k8s.io/v1beta1", "Signer", "")), bad, "no kind"},
		{"unknown version", post(jsonType, object("certificates.k8s.io/v9", kind, "")), bad, "no kind"},
		{"another version", post(jsonType, object("certificates.k8s.io/v1beta1", kind, "")), bad, "does not match the expected API version"},
		{"list", post(jsonType, object(version, kind+"List", "")), bad, ""},
		{"another name", put("stored", object(version, kind, "")), bad, "the name of the object (other) does not match the name on the URL (stored)"},
		{"ill-typed field", post(jsonType, object(version, kind, `,"spec":{"usages":"any"}`)), bad, ""},
		{"number that is too large", post(jsonType, object(version, kind, `,"spec":{"expirationSeconds":4294967296}`)), bad, ""},
		{"request that is not base64", post(jsonType, object(version, kind, `,"spec":{"request":"-----BEGIN"}`)), bad, "illegal base64"},
		{"duplicate field", strict, bad, `duplicate field \"spec.username\"`},
		{"unknown query", call{path: path(v1) + "?limit=many"}, bad, ""},
		{"unknown resource version", call{path: path(v1) + "?resourceVersion=nonsense"}, bad, ""},
		{"unknown selector", call{path: path(v1) + "?labelSelector=%20,,="}, bad, ""},
		{"unknown field", call{path: path(v1) + "?fieldSelector=spec.username%3Dx"}, bad, "field label not supported: spec.username"},
	})
	if got := w.get(t, "stored"); got.ResourceVersion != stored.ResourceVersion {
		t.Error("the stored request has changed")
	}
}
