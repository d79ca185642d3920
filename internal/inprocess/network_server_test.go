package inprocess_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/transport"

	"github.com/certplane/certplane/internal/handles"
)

// A handle that is not of the same request is refused, and so is one that comes
// over the network: as any unknown format.
func TestHandlesOfOthers(t *testing.T) {
	w := start(t)
	handle := w.objects.Put(newConfigMap(t))
	defer w.objects.Drop(handle)
	send := func(transport http.RoundTripper, contentType string, body []byte) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.server.URL+"/api/v1/namespaces/default/configmaps", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", contentType)
		request.Header.Set("Authorization", "Bearer "+w.server.Inside.BearerToken)
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(text)
	}
	if code, text := send(w.server.Inside.Transport, handles.MediaType, make([]byte, handles.HandleSize)); code != http.StatusBadRequest {
		t.Errorf("a handle that nobody gave out: %d %s", code, text)
	}
	network := w.server.Admin(t)
	outside, err := network.TransportConfig()
	if err != nil {
		t.Fatal(err)
	}
	over := newTransport(t, outside)
	wantCode, want := send(over, "application/x-nothing", handle[:])
	for _, contentType := range []string{handles.MediaType, "Application/VND.certplane.object;x=y"} {
		if code, text := send(over, contentType, handle[:]); code != http.StatusUnsupportedMediaType || code != wantCode || text != want {
			t.Errorf("%s: %d %s\nwant %d %s", contentType, code, text, wantCode, want)
		}
	}
	if code, text := send(over, "application/vnd.kubernetes.protobuf", handle[:]); code != http.StatusBadRequest {
		t.Errorf("a handle as protobuf: %d %s", code, text)
	}
	if _, ok := w.objects.Take(handle[:]); !ok {
		t.Error("the handle was used")
	}
}

// Nobody gets handles over the network, in whatever way they are asked for.
func TestNoHandlesOverTheNetwork(t *testing.T) {
	w := start(t)
	config, err := w.server.Admin(t).TransportConfig()
	if err != nil {
		t.Fatal(err)
	}
	over := newTransport(t, config)
	const path = "/api/v1/namespaces/default/configmaps"
	for _, c := range []struct {
		method, path, accept string
		code                 int
	}{
		{"GET", path, handles.MediaType, http.StatusNotAcceptable},
		{"GET", path, " Application/Vnd.certplane.object ", http.StatusNotAcceptable},
		{"GET", "/apis/certificates.k8s.io/v1/certificatesigningrequests/none/approval", "application/json;as=Table;g=meta.k8s.io;v=v1", http.StatusNotAcceptable},
		{"GET", path + "/kube-root-ca.crt", handles.MediaType, http.StatusNotAcceptable},
		{"GET", path + "?watch=1&timeoutSeconds=1", handles.MediaType + ";stream=watch", http.StatusNotAcceptable},
		{"GET", path, handles.MediaType + ", application/json", http.StatusOK},
		{"GET", path + "?watch=1&timeoutSeconds=1", handles.MediaType + ", application/json", http.StatusOK},
		{"GET", path, "*/*", http.StatusOK},
		{"PATCH", path + "/kube-root-ca.crt", handles.MediaType + ", application/json", http.StatusOK},
		{"PATCH", path + "/kube-root-ca.crt", handles.MediaType, http.StatusNotAcceptable},
	} {
		request, err := http.NewRequestWithContext(t.Context(), c.method, w.server.URL+c.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", c.accept)
		request.Header.Set("Content-Type", "application/merge-patch+json")
		response, err := over.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != c.code || strings.Contains(response.Header.Get("Content-Type")+string(text), "vnd.certplane") || c.code == http.StatusOK && !bytes.HasPrefix(text, []byte("{")) {
			t.Errorf("%s %s, Accept: %s: %d %s %.100s", c.method, c.path, c.accept, response.StatusCode, response.Header.Get("Content-Type"), text)
		}
	}
	w.nothingLeft(t)
}

func newTransport(t *testing.T, config *transport.Config) http.RoundTripper {
	t.Helper()
	over, err := transport.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return over
}
