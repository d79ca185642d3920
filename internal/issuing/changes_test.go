package issuing

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Issuers can wait for objects of any kind that a type watches, even of a kind
// that the API does not have yet.
func TestFollow(t *testing.T) {
	informers := &informertest.FakeInformers{}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "order"}}
	informer, err := informers.FakeInformerFor(t.Context(), object)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var got []Reference
		var served atomic.Pointer[metav1.APIResourceList]
		served.Store(&metav1.APIResourceList{})
		c := Changes{
			Cache: informers,
			Config: Config{
				Client:   fake.NewClientBuilder().Build(),
				Versions: func(context.Context, string) (*metav1.APIResourceList, error) { return served.Load(), nil },
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- c.follow(ctx, Watch{Object: &corev1.ConfigMap{}, Resource: "configmaps"}, func(r Reference) { got = append(got, r) })
		}()
		synctest.Wait()
		informer.Add(object)
		if len(got) != 0 {
			t.Errorf("told of %v, of a kind that is not served", got)
		}
		served.Store(&metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "configmaps"}}})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		informer.Add(object)
		informer.Update(object, object)
		informer.Delete(object)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		want := Reference{Kind: schema.GroupKind{Kind: "ConfigMap"}, NamespacedName: types.NamespacedName{Namespace: "ns", Name: "order"}}
		if len(got) != 3 || got[0] != want || got[1] != want || got[2] != want {
			t.Errorf("told of %v, want %v three times", got, want)
		}
	})
}

// A changed object can stand for another one, whose name is known.
func TestFollowReferences(t *testing.T) {
	informers := &informertest.FakeInformers{}
	informer, err := informers.FakeInformerFor(t.Context(), &corev1.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		owner := Secret(types.NamespacedName{Namespace: "ns", Name: "owner"})
		var got []Reference
		c := Changes{Cache: informers, Config: Config{
			Client: fake.NewClientBuilder().Build(),
			Versions: func(context.Context, string) (*metav1.APIResourceList, error) {
				return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "configmaps"}}}, nil
			},
		}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		watch := Watch{Object: &corev1.ConfigMap{}, Resource: "configmaps", References: func(client.Object) []Reference { return []Reference{owner} }}
		go func() { ended <- c.follow(ctx, watch, func(r Reference) { got = append(got, r) }) }()
		synctest.Wait()
		informer.Add(&corev1.ConfigMap{})
		cancel()
		if err := <-ended; err != nil || len(got) != 1 || got[0] != owner {
			t.Errorf("told of %v, %v", got, err)
		}
	})
}

// A kind that is in no scheme ends the following with an error, not with a
// panic.
func TestFollowUnknown(t *testing.T) {
	c := Changes{Cache: &informertest.FakeInformers{}, Config: Config{Client: fake.NewClientBuilder().Build()}}
	type unknown struct{ client.Object }
	if err := c.follow(t.Context(), Watch{Object: unknown{}}, nil); err == nil {
		t.Error("a kind that is in no scheme is followed")
	}
}
