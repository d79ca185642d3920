package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/apitest"
)

const (
	// listed is how many requests of 36 KB are in each list.
	listed = 1200
	// listers is how many lists one token wants at a time: more than it can have.
	listers = 80
	// listing is how long each form is listed.
	listing = 5 * time.Second
	// maxListMemory is what the server may take more during lists, in MiB.
	maxListMemory = 700
)

const (
	table     = "application/json;as=Table;v=v1;g=meta.k8s.io"
	yamlTable = "application/yaml;as=Table;v=v1;g=meta.k8s.io"
)

// listForms are all forms in which a client can have a list. CONTINUE stands for the
// place after the first request: such lists are read from the store.
var listForms = []struct{ name, accept, query string }{
	{"JSON", jsonType, ""},
	{"pretty JSON", jsonType, "pretty=true"},
	{"parts in pretty JSON", jsonType, "pretty=true&limit=200"},
	{"YAML", "application/yaml", ""},
	{"parts in YAML", "application/yaml", "limit=60"},
	{"protobuf", "application/vnd.kubernetes.protobuf", ""},
	{"CBOR", "application/cbor", ""},
	{"a table", table, ""},
	{"a table with objects", table, "includeObject=Object"},
	{"parts of a table with objects", table, "includeObject=Object&limit=200"},
	{"a pretty table with objects", table, "includeObject=Object&pretty=true"},
	{"a table with objects in YAML", yamlTable, "includeObject=Object"},
	{"metadata in YAML", "application/yaml;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", ""},
	{"JSON from the store", jsonType, "limit=5000&continue=CONTINUE"},
	{"YAML from the store", "application/yaml", "limit=5000&continue=CONTINUE"},
}

// However one token lists, the server's memory is bounded, and others are served.
func TestListsInAllForms(t *testing.T) {
	w := start(t)
	attacker := w.newToken(t)
	attacker.Dial = elsewhere
	who, err := client(attacker, false)
	if err != nil {
		t.Fatal(err)
	}
	w.createForLists(t, who)
	after := w.continueAfterOne(t, who)
	t.Run("documents", func(t *testing.T) {
		w.withstandLists(t, func(ctx context.Context) string {
			return w.list(ctx, who, "/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
		})
	})
	for _, form := range listForms {
		t.Run(form.name, func(t *testing.T) {
			path := requestsPath + "?" + strings.Replace(form.query, "CONTINUE", url.QueryEscape(after), 1)
			w.withstandLists(t, func(ctx context.Context) string { return w.list(ctx, who, path, form.accept) })
		})
	}
}

func (w *world) createForLists(t *testing.T, who *http.Client) {
	t.Helper()
	csr := finalizedRequest()
	csr.Finalizers, csr.GenerateName = nil, "listed-"
	csr.Annotations = map[string]string{"example.com/large": strings.Repeat("x", 2<<10)}
	csr.Spec.Request = append(slices.Clone(csr.Spec.Request), strings.Repeat("x", 34<<10)...)
	body, err := json.Marshal(csr)
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan struct{}, listed)
	for range listed {
		next <- struct{}{}
	}
	close(next)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range next {
				code := w.status(t.Context(), who, http.MethodPost, requestsPath, body)
				for n := 0; n < 10 && code == "500"; n++ { // a busy store has not answered in time
					code = w.status(t.Context(), who, http.MethodPost, requestsPath, body)
				}
				if code != "201" {
					t.Errorf("creating a request: %s", code)
					return
				}
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// continueAfterOne returns where a list continues after its first request.
func (w *world) continueAfterOne(t *testing.T, who *http.Client) string {
	t.Helper()
	var page certificatesv1.CertificateSigningRequestList
	if err := w.do(t.Context(), who, http.MethodGet, requestsPath+"?limit=1", nil, &page); err != nil {
		t.Fatal(err)
	}
	return page.Continue
}

// withstandLists lists as often at a time as a client may.
func (w *world) withstandLists(t *testing.T, list func(context.Context) string) {
	ctx, stop := context.WithTimeout(t.Context(), listing)
	defer stop()
	before, most, counts := w.memory(), 0, &tally{}
	var group sync.WaitGroup
	for range listers {
		group.Go(func() {
			for ctx.Err() == nil {
				counts.add(list(ctx))
			}
		})
	}
	for ctx.Err() == nil {
		if most = max(most, w.memory()); most-before > maxListMemory {
			t.Errorf("lists make the server take %d MiB more, want at most %d", most-before, maxListMemory)
			stop() // before it takes the memory of this machine
		}
		pause(ctx)
	}
	group.Wait()
	t.Logf("the client got %s; the server took %d MiB more than %d", counts, most-before, before)
	apitest.Eventually(t, "a list of a few is answered", func() bool {
		admin, err := client(w.Admin(t), false)
		return err == nil && w.do(t.Context(), admin, http.MethodGet, requestsPath+"?limit=10", nil, nil) == nil
	})
}

func (w *world) list(ctx context.Context, who *http.Client, path, accept string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.URL+path, http.NoBody)
	if err != nil {
		return err.Error()
	}
	request.Header.Set("Accept", accept)
	response, err := who.Do(request)
	if err != nil {
		pause(ctx)
		return "no answer"
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		defer pause(ctx)
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return "half an answer"
	}
	return fmt.Sprint(response.StatusCode)
}
