package adopt_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/adopt"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/manifests"
)

// world is a server with the kinds of a cluster that "certplane serve" does not have: Deployments
// and PodDisruptionBudgets, kept in memory by a proxy in front of it.
type world struct {
	t      *testing.T
	api    explain.API
	config adopt.Config
	out    strings.Builder

	mu      sync.Mutex
	objects map[string]map[string]any // by URL path
	deleted []string                  // URL paths, in order
	// changed is called after a change of a Deployment, as its controller would.
	changed func(path string, replicas int64)
	slept   time.Duration
	sleep   func() error
}

func newWorld(t *testing.T, program string) *world {
	t.Helper()
	w := &world{t: t, objects: map[string]map[string]any{}, changed: func(string, int64) {}, sleep: func() error { return nil }}
	target := apitest.Start(t).Admin(t)
	w.config = adopt.Config{
		Program: program, Client: w.inFront(target), Out: &w.out, Watch: adopt.Watching, Now: time.Now,
		Line: func(words ...string) string { return "certplane " + strings.Join(words, " ") },
		Ask:  func(string) (bool, error) { return true, nil },
		Sleep: func(_ context.Context, d time.Duration) error {
			w.slept += d
			time.Sleep(min(d, time.Millisecond)) // other goroutines act
			return w.sleep()
		},
		Manifests: func(config []byte) ([]runtime.Object, error) {
			cfg, err := cluster.ParseConfig(config)
			if err != nil {
				return nil, err
			}
			cfg.Webhook.Serve = "Never" // nothing leads to a Service here; the server validates
			return manifests.Objects(manifests.Config{Image: "test", Controllers: cfg})
		},
	}
	var err error
	if w.api, err = explain.Connect(w.config.Client); err != nil {
		t.Fatal(err)
	}
	return w
}

// inFront returns a client of a proxy in front of a server.
func (w *world) inFront(server *rest.Config) *rest.Config {
	target, err := url.Parse(server.Host)
	if err != nil {
		w.t.Fatal(err)
	}
	transport, err := rest.TransportFor(server)
	if err != nil {
		w.t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			w.mu.Lock()
			w.deleted = append(w.deleted, r.URL.Path)
			w.mu.Unlock()
		}
		if strings.HasPrefix(r.URL.Path, "/apis/apps/v1") || strings.HasPrefix(r.URL.Path, "/apis/policy/v1") {
			w.serve(rw, r)
			return
		}
		proxy.ServeHTTP(rw, r)
	}))
	w.t.Cleanup(front.Close)
	return &rest.Config{Host: front.URL, QPS: -1}
}

// serve keeps objects as an API server does, as far as a move needs it.
func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rw.Header().Set("Content-Type", "application/json")
	answer := func(code int, value any) {
		rw.WriteHeader(code)
		if err := json.NewEncoder(rw).Encode(value); err != nil {
			w.t.Error(err)
		}
	}
	path := strings.TrimSuffix(r.URL.Path, "/")
	resource := path[strings.LastIndex(path, "/")+1:]
	switch {
	case path == "/apis/apps/v1" || path == "/apis/policy/v1":
		answer(http.StatusOK, map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": strings.TrimPrefix(path, "/apis/"), "resources": []any{
			map[string]any{"name": "deployments", "kind": "Deployment", "namespaced": true, "verbs": []string{"list"}},
			map[string]any{"name": "poddisruptionbudgets", "kind": "PodDisruptionBudget", "namespaced": true, "verbs": []string{"list"}},
		}})
		return
	case resource == "deployments" || resource == "poddisruptionbudgets":
		items := []any{}
		for at, o := range w.objects {
			if strings.Contains(at, "/"+resource+"/") {
				items = append(items, o)
			}
		}
		kind := map[string]string{"deployments": "Deployment", "poddisruptionbudgets": "PodDisruptionBudget"}[resource]
		answer(http.StatusOK, map[string]any{"kind": kind + "List", "apiVersion": strings.Join(strings.Split(path, "/")[2:4], "/"), "metadata": map[string]any{}, "items": items})
		return
	}
	stored := w.objects[path]
	if stored == nil && r.Method != http.MethodPatch {
		answer(http.StatusNotFound, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "details": map[string]any{"name": resource}})
		return
	}
	switch r.Method {
	case http.MethodPatch:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.t.Error(err)
		}
		patch := map[string]any{}
		if err := yaml.Unmarshal(body, &patch); err != nil {
			w.t.Error(err)
		}
		next := (&unstructured.Unstructured{Object: stored}).DeepCopy().Object
		if next == nil {
			next = map[string]any{}
		}
		mergeInto(next, patch)
		if r.URL.Query().Get("dryRun") == "" {
			w.store(path, next)
		}
		answer(http.StatusOK, next)
		return
	case http.MethodDelete:
		delete(w.objects, path)
		go w.changed(path, 0)
	}
	answer(http.StatusOK, stored)
}

func mergeInto(into, patch map[string]any) {
	for key, value := range patch {
		below, isMap := value.(map[string]any)
		inner, hasMap := into[key].(map[string]any)
		if isMap && hasMap {
			mergeInto(inner, below)
			continue
		}
		into[key] = value
	}
}

// store stores an object; all pods of a Deployment are ready at once. w.mu is held.
func (w *world) store(path string, o map[string]any) {
	w.objects[path] = o
	if !strings.Contains(path, "/deployments/") {
		return
	}
	data, err := json.Marshal(o)
	if err != nil {
		w.t.Error(err)
	}
	stored := &unstructured.Unstructured{}
	if err := stored.UnmarshalJSON(data); err != nil { // with integers
		w.t.Error(err)
	}
	replicas, found, _ := unstructured.NestedInt64(stored.Object, "spec", "replicas")
	if !found {
		replicas = 1
	}
	stored.Object["status"] = map[string]any{"replicas": replicas, "availableReplicas": replicas, "updatedReplicas": replicas}
	w.objects[path] = stored.Object
	go w.changed(path, replicas)
}

// deploy stores a Deployment.
func (w *world) deploy(text string) {
	w.t.Helper()
	o := w.object(text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.store("/apis/apps/v1/namespaces/"+o.GetNamespace()+"/deployments/"+o.GetName(), o.Object)
}

func (w *world) object(text string) *unstructured.Unstructured {
	w.t.Helper()
	o := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = o.UnmarshalJSON(data)
	}
	if err != nil {
		w.t.Fatalf("%s: %v", text, err)
	}
	return o
}

// create creates objects in YAML, separated by "---".
func (w *world) create(text string) {
	w.t.Helper()
	for document := range strings.SplitSeq(text, "---\n") {
		if err := w.api.Create(w.t.Context(), w.object(document)); err != nil {
			w.t.Fatalf("%s: %v", document, err)
		}
	}
}

func (w *world) get(o client.Object, namespace, name string) bool {
	w.t.Helper()
	err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return err == nil
}
