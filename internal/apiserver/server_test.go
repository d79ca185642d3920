package apiserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

const (
	signerName = "example.com/signer"
	requests   = "certificatesigningrequests"
	v1         = "v1"
	v1beta1    = "v1beta1"
)

type csr = certificatesv1.CertificateSigningRequest

// world is a server and its administrator.
type world struct {
	*apitest.Server
	admin kubernetes.Interface
}

func start(t *testing.T, options ...func(*server.Config)) world {
	t.Helper()
	s := apitest.Start(t, options...)
	return world{Server: s, admin: apitest.Client(t, s.Admin(t))}
}

// path returns the path of an object in a version, or of all of them.
func path(version string, name ...string) string {
	p := "/apis/certificates.k8s.io/" + version + "/" + requests
	for _, part := range name {
		p += "/" + part
	}
	return p
}

// call is a request as it is sent over the network.
type call struct {
	method, path string // method: default GET, or POST if there is a body
	header       map[string]string
	body         []byte
}

// answer is a response.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// send sends a call as the user of cfg.
func (w world) send(t testing.TB, cfg *rest.Config, c call) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if c.method == "" && c.body != nil {
		c.method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, c.method, w.URL+c.path, bytes.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range c.header {
		request.Header.Set(key, value)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, body}
}

// err returns the error that a client library creates from an answer, or nil.
func (a answer) err() error {
	status := metav1.Status{}
	switch err := json.Unmarshal(a.body, &status); {
	case a.code < 400:
		return nil
	case err != nil || status.Kind != "Status":
		return fmt.Errorf("%d: %.200s", a.code, a.body)
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// write sends a request's object in a version, as the administrator. The JSON
// of all versions is the same.
func (w world) write(t testing.TB, method, version string, obj *csr, endpoint ...string) (*csr, error) {
	t.Helper()
	obj = obj.DeepCopy()
	obj.APIVersion, obj.Kind = "certificates.k8s.io/"+version, "CertificateSigningRequest"
	body, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	where := path(version)
	if method != http.MethodPost {
		where = path(version, append([]string{obj.Name}, endpoint...)...)
	}
	got := w.send(t, w.Admin(t), call{method: method, path: where, header: map[string]string{"Content-Type": "application/json"}, body: body})
	if err := got.err(); err != nil {
		return nil, err
	}
	stored := &csr{}
	if err := json.Unmarshal(got.body, stored); err != nil {
		t.Fatalf("reading the answer: %v", err)
	}
	return stored, nil
}

func (w world) get(t testing.TB, name string) *csr {
	t.Helper()
	got, err := w.admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// newCSR returns a request that every version accepts.
func newCSR(t testing.TB, name string) *csr {
	t.Helper()
	return apitest.NewCSR(t, name, signerName, pki.Subject{CommonName: "somebody"}, apitest.NewKey(t))
}
