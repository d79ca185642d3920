package core_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
)

// A list that is streamed ends with a bookmark that says so.
func TestWatchList(t *testing.T) {
	w := start(t)
	if _, err := w.core.Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: named("s")}, create); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	events, err := w.core.Secrets("default").Watch(ctx, metav1.ListOptions{
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

func TestInformer(t *testing.T) {
	w := start(t)
	shared := informers.NewSharedInformerFactoryWithOptions(w, 0, informers.WithNamespace("default"))
	configs := shared.Core().V1().ConfigMaps()
	seen := make(chan string, 100)
	_, err := configs.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { seen <- "added " + obj.(*corev1.ConfigMap).Name },
		DeleteFunc: func(obj any) { seen <- "deleted " + obj.(*corev1.ConfigMap).Name },
	})
	if err != nil {
		t.Fatal(err)
	}
	shared.Start(t.Context().Done())
	shared.WaitForCacheSync(t.Context().Done())
	if _, err := w.core.ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: named("c")}, create); err != nil {
		t.Fatal(err)
	}
	if err := w.core.ConfigMaps("default").DeleteCollection(t.Context(), remove, metav1.ListOptions{FieldSelector: "metadata.name=c"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"added c", "deleted c"} {
		waitFor(t, seen, want)
	}
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
	w := start(t)
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
		"/api/v1/serviceaccounts?labelSelector=x=y":        "Name|Secrets|Age\n",
	} {
		if got := apitest.Table(t, w.Admin(t), path); !strings.HasPrefix(got, want) {
			t.Errorf("%s:\n%swant\n%s", path, got, want)
		}
	}
}
