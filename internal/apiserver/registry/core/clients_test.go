package core_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
)

// A streamed list ends with a bookmark that marks its end.
func TestWatchList(t *testing.T) {
	w := start(t)
	if _, err := w.core.Secrets(w.namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: named("s")}, create); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	events, err := w.core.Secrets(w.namespace).Watch(ctx, metav1.ListOptions{
		SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	var got []string
	for event := range events.ResultChan() {
		secret := event.Object.(*corev1.Secret)
		if event.Type == watch.Bookmark && secret.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
			break
		}
		got = append(got, string(event.Type)+" "+secret.Name)
	}
	if strings.Join(got, ", ") != "ADDED s" {
		t.Errorf("initial events: %v", got)
	}
}

// Informers of every kind of client fill their caches with a watch, as they do
// by default (KEP-3157). An informer that the server refuses would use a list
// instead.
func TestInformers(t *testing.T) {
	w := start(t)
	if _, err := w.core.ConfigMaps(w.namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: named("first")}, create); err != nil {
		t.Fatal(err)
	}
	cfg, asked := recorded(w.Admin(t))
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	names, err := metadata.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	configs := corev1.SchemeGroupVersion.WithResource("configmaps")
	for kind, informer := range map[string]cache.SharedIndexInformer{
		"typed":    coreinformers.NewConfigMapInformer(apitest.Client(t, cfg), w.namespace, 0, nil),
		"dynamic":  dynamicinformer.NewFilteredDynamicInformer(objects, configs, w.namespace, 0, nil, nil).Informer(),
		"metadata": metadatainformer.NewFilteredMetadataInformer(names, configs, w.namespace, 0, nil, nil).Informer(),
	} {
		t.Run(kind, func(t *testing.T) {
			seen := watched(t, informer)
			waitFor(t, seen, "added first")
			if got := asked(); len(got) != 1 || got[0].Get("sendInitialEvents") != "true" || got[0].Get("allowWatchBookmarks") != "true" {
				t.Errorf("the informer asked for %v, want nothing but a watch that begins with what is there", got)
			}
			if _, err := w.core.ConfigMaps(w.namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: named(kind)}, create); err != nil {
				t.Fatal(err)
			}
			waitFor(t, seen, "added "+kind)
			only := metav1.ListOptions{FieldSelector: "metadata.name=" + kind}
			if err := w.core.ConfigMaps(w.namespace).DeleteCollection(t.Context(), remove, only); err != nil {
				t.Fatal(err)
			}
			waitFor(t, seen, "deleted "+kind)
		})
	}
}

// recorded returns a copy of cfg, and a function that returns the requests made
// with it since the last call.
func recorded(cfg *rest.Config) (*rest.Config, func() []url.Values) {
	var mu sync.Mutex
	var queries []url.Values
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			queries = append(queries, r.URL.Query())
			mu.Unlock()
			return next.RoundTrip(r)
		})
	})
	return cfg, func() []url.Values {
		mu.Lock()
		defer mu.Unlock()
		asked := queries
		queries = nil
		return asked
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// watched runs an informer until the test ends. It returns what the informer
// sees, once its cache is filled.
func watched(t *testing.T, informer cache.SharedIndexInformer) <-chan string {
	t.Helper()
	seen := make(chan string, 100)
	name := func(obj any) string { return obj.(metav1.Object).GetName() }
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { seen <- "added " + name(obj) },
		DeleteFunc: func(obj any) { seen <- "deleted " + name(obj) },
	})
	if err != nil {
		t.Fatal(err)
	}
	go informer.RunWithContext(t.Context())
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the cache was not filled")
	}
	return seen
}

func waitFor(t *testing.T, seen <-chan string, want string) {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		select {
		case got := <-seen:
			if got == want {
				return
			}
		case <-timeout:
			t.Fatalf("%q was not seen", want)
		}
	}
}

func TestDiscoveryAndTables(t *testing.T) {
	w := startOn(t, apitest.Start(t))
	list, err := w.Discovery().ServerResourcesForGroupVersion("v1")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, resource := range list.APIResources {
		got[resource.Name] = strings.Join(resource.ShortNames, " ") + "|" + strings.Join(resource.Categories, " ") + "|" + strings.Join(resource.Verbs, " ")
	}
	const all, part = "create delete deletecollection get list patch update watch", "||get patch update"
	for name, want := range map[string]string{
		"namespaces":        "ns||create delete get list patch update watch",
		"namespaces/status": part,
		// Only a whole namespace can be finalized.
		"namespaces/finalize": "||update",
		"secrets":             "||" + all,
		"configmaps":          "cm||" + all,
		"serviceaccounts":     "sa||" + all,
		"events":              "ev||" + all,
		"nodes":               "no||" + all,
		"nodes/status":        part,
		"pods":                "po|all|" + all,
		"pods/status":         part,
	} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
	if _, err := w.core.Secrets("kube-public").Create(t.Context(), &corev1.Secret{ObjectMeta: named("s"), Data: map[string][]byte{"k": nil}}, create); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/api/v1/namespaces/default":                       "Name|Status|Age\ndefault|Active|",
		"/api/v1/namespaces/kube-public/secrets":           "Name|Type|Data|Age\ns|Opaque|1|",
		"/api/v1/namespaces/kube-public/secrets/s":         "Name|Type|Data|Age\ns|Opaque|1|",
		"/api/v1/namespaces/default/pods":                  "Name|Ready|Status|Restarts|Age\n",
		"/api/v1/namespaces/kube-public/events":            "Last Seen|Type|Reason|Object|Message\n",
		"/apis/coordination.k8s.io/v1/leases":              "Name|Holder|Age\n",
		"/api/v1/configmaps?fieldSelector=metadata.name=x": "Name|Data|Age\n",
		"/api/v1/serviceaccounts?labelSelector=x=y":        "Name|Age\n",
	} {
		if got := apitest.Table(t, w.Admin(t), path); !strings.HasPrefix(got, want) {
			t.Errorf("%s:\n%swant\n%s", path, got, want)
		}
	}
}
