package issuing

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// What issuers wait for can be an object of any kind that a type watches.
func TestFollow(t *testing.T) {
	informers := &informertest.FakeInformers{}
	c := Changes{Cache: informers, Client: fake.NewClientBuilder().Build()}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "order"}}
	informer, err := informers.FakeInformerFor(t.Context(), object)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var got []Reference
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- c.follow(ctx, &corev1.ConfigMap{}, func(r Reference) { got = append(got, r) })
		}()
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

// A kind that nothing knows ends the following with an error, not with a panic.
func TestFollowUnknown(t *testing.T) {
	c := Changes{Cache: &informertest.FakeInformers{}, Client: fake.NewClientBuilder().Build()}
	type unknown struct{ client.Object }
	if err := c.follow(t.Context(), unknown{}, nil); err == nil {
		t.Error("a kind that is in no scheme is followed")
	}
}
