package bundles

import (
	"context"
	"crypto/x509"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/trustmanager"
	"github.com/certplane/certplane/internal/policy/truststore"
	"github.com/certplane/certplane/internal/process/trusttarget"
)

// counting counts what is applied.
type counting struct {
	client.Client
	applied atomic.Int32
}

func (c *counting) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	c.applied.Add(1)
	return nil
}

// A target is not written twice while the cache does not show the first write, unless its content
// changes or the write may be lost.
func TestLateCache(t *testing.T) {
	api, now := &counting{}, clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	r := &reconciler{Config: Config{Clock: now}, writer: trusttarget.Writer{Client: api, Manager: fieldManager}}
	b := &trustmanager.Bundle{ObjectMeta: metav1.ObjectMeta{Name: "roots", UID: "1"}}
	b.Spec.Target.ConfigMap = &trustmanager.TargetTemplate{KeySelector: trustmanager.KeySelector{Key: "ca.crt"}}
	one, two := &truststore.Set{}, &truststore.Set{}
	one.Add(&x509.Certificate{Raw: []byte("one")})
	two.Add(&x509.Certificate{Raw: []byte("two")})
	stored := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}}
	for i, test := range []struct {
		reason string
		after  time.Duration
		set    *truststore.Set
		stored *metav1.PartialObjectMetadata
		writes int32
		again  time.Duration
	}{
		{"the first pass writes", 0, one, nil, 1, 0},
		{"the cache is late", time.Second, one, nil, 0, cacheDelay},
		{"a new root does not wait", time.Second, two, nil, 1, 0},
		{"the cache is late", cacheDelay - 1, two, nil, 0, cacheDelay},
		{"the write may be lost", 1, two, nil, 1, 0},
		{"the cache shows another state", 0, two, stored, 1, 0},
		{"the cache is late", 0, two, stored, 0, cacheDelay},
	} {
		now.Step(test.after)
		before := api.applied.Load()
		o := r.write(t.Context(), b, test.set, []target{{trusttarget.ConfigMap, types.NamespacedName{Namespace: "team", Name: "roots"}, b.Spec.Target.ConfigMap, test.stored}})
		if writes := api.applied.Load() - before; writes != test.writes || o.again != test.again || o.written != (writes > 0) {
			t.Errorf("%d: %s: %d writes, %+v", i, test.reason, writes, o)
		}
	}
}

// The cache transforms the objects of a streamed list twice, which must not lose the keys of a
// target: it would be written at each start.
func TestStateTwice(t *testing.T) {
	stored := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "roots", Annotations: map[string]string{"trust.cert-manager.io/hash": "abc"},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: string(fieldManager), Operation: metav1.ManagedFieldsOperationApply,
			FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:ca.crt":{}},"f:binaryData":{"f:trust.p12":{}}}`),
		}},
	}}
	once, err := onlyState(stored.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	first := once.(*metav1.PartialObjectMetadata).DeepCopy()
	if keys := first.Annotations[keysAnnotation]; keys != "ca.crt,trust.p12" {
		t.Errorf("the keys are %q", keys)
	}
	twice, err := onlyState(once)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, twice); diff != "" {
		t.Errorf("the second time differs:\n%s", diff)
	}
}
