package inprocess_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/inprocess/objectpass"
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
	if code, text := send(w.server.Inside.Transport, objectpass.MediaType, make([]byte, objectpass.HandleSize)); code != http.StatusBadRequest {
		t.Errorf("a handle that nobody gave out: %d %s", code, text)
	}
	network := w.server.Admin(t)
	outside, err := network.TransportConfig()
	if err != nil {
		t.Fatal(err)
	}
	over := newTransport(t, outside)
	wantCode, want := send(over, "application/x-nothing", handle[:])
	for _, contentType := range []string{objectpass.MediaType, "Application/VND.certplane.object;x=y"} {
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
		{"GET", path, objectpass.MediaType, http.StatusNotAcceptable},
		{"GET", path, " Application/Vnd.certplane.object ", http.StatusNotAcceptable},
		{"GET", "/apis/certificates.k8s.io/v1/certificatesigningrequests/none/approval", "application/json;as=Table;g=meta.k8s.io;v=v1", http.StatusNotAcceptable},
		{"GET", path + "/kube-root-ca.crt", objectpass.MediaType, http.StatusNotAcceptable},
		{"GET", path + "?watch=1&timeoutSeconds=1", objectpass.MediaType + ";stream=watch", http.StatusNotAcceptable},
		{"GET", path, objectpass.MediaType + ", application/json", http.StatusOK},
		{"GET", path + "?watch=1&timeoutSeconds=1", objectpass.MediaType + ", application/json", http.StatusOK},
		{"GET", path, "*/*", http.StatusOK},
		{"PATCH", path + "/kube-root-ca.crt", objectpass.MediaType + ", application/json", http.StatusOK},
		{"PATCH", path + "/kube-root-ca.crt", objectpass.MediaType, http.StatusNotAcceptable},
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

// A call within the process passes what a request from the network passes: it is refused for
// the same reasons, and recorded with the same stages and facts.
func TestSameAsOverTheNetwork(t *testing.T) {
	w, network := start(t), rest.AnonymousClientConfig(shared.Start(t).Admin(t))
	network.BearerToken = w.server.Inside.BearerToken
	outcomes := map[string][]string{}
	for way, api := range map[string]*rest.Config{"inside": w.server.Inside, "network": network} {
		calls := clientOf(t, w, api, "")
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "same-" + way}}
		wrong := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "Same"}}
		outcomes[way] = []string{
			fmt.Sprint(calls.Create(t.Context(), c)), fmt.Sprint(calls.Create(t.Context(), wrong)), fmt.Sprint(calls.Delete(t.Context(), c)),
			fmt.Sprint(clientOf(t, w, api, "somebody").Create(t.Context(), wrong)),
			strings.ReplaceAll(recordedAbout(t, c.Name), way, ""),
		}
	}
	if difference := cmp.Diff(outcomes["network"], outcomes["inside"]); difference != "" {
		t.Error(difference)
	}
}

func clientOf(t *testing.T, w world, api *rest.Config, as string) client.Client {
	t.Helper()
	config := rest.CopyConfig(api)
	config.Impersonate.UserName = as
	made, err := inprocess.NewClient(config, client.Options{Scheme: w.scheme, Mapper: w.inside.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// recordedAbout returns the facts in the audit log about an object, up to its deletion.
func recordedAbout(t *testing.T, name string) string {
	t.Helper()
	var facts []string
	apitest.Eventually(t, "the deletion of "+name+" is recorded", func() bool {
		recorded, err := os.ReadFile(auditLog)
		if err != nil {
			t.Fatal(err)
		}
		facts = nil
		for line := range bytes.Lines(recorded) {
			event := auditv1.Event{}
			if json.Unmarshal(line, &event) != nil || event.ObjectRef == nil || event.ObjectRef.Name != name {
				continue
			}
			code := int32(0)
			if event.ResponseStatus != nil {
				code = event.ResponseStatus.Code
			}
			facts = append(facts, fmt.Sprintf("%s %s %s %s %v %v %d %v", event.Level, event.Stage, event.Verb, event.RequestURI,
				event.User, event.ImpersonatedUser, code, event.Annotations))
		}
		return slices.ContainsFunc(facts, func(fact string) bool { return strings.Contains(fact, "ResponseComplete delete") })
	})
	return strings.Join(facts, "\n")
}
