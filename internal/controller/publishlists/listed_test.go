package publishlists

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// sameAsAPI is a cache that is never late.
type sameAsAPI struct {
	cache.Cache
	api client.Reader
}

func (c sameAsAPI) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return c.api.Get(ctx, key, object, options...)
}

// A Revocation is deleted 30 days after the end of its certificates.
func TestOldRevocationsAreDeleted(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	ends := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	object := &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{Name: "leak"}, Status: v1alpha1.RevocationStatus{
		Ends: &metav1.Time{Time: ends}, Conditions: []metav1.Condition{{Type: v1alpha1.RevocationListed, Status: metav1.ConditionTrue}},
	}}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(object).WithStatusSubresource(object).Build()
	steady := clocktesting.NewFakePassiveClock(ends)
	r := &reporter{&publisher{}, APIConfig{Client: api, Revocations: sameAsAPI{api: api}, Steady: steady}}
	key := client.ObjectKeyFromObject(object)
	for _, tc := range []struct {
		reason  string
		at      time.Time
		again   time.Duration
		deleted bool
	}{
		{"the certificate has just ended", ends, 24 * time.Hour, false},
		{"a minute too early", ends.Add(30*24*time.Hour - time.Minute), time.Minute, false},
		{"due", ends.Add(30 * 24 * time.Hour), 0, true},
	} {
		steady.SetTime(tc.at)
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		if err != nil || result.RequeueAfter != tc.again {
			t.Errorf("%s: %v, %v", tc.reason, result, err)
		}
		if err := api.Get(t.Context(), key, &v1alpha1.Revocation{}); apierrors.IsNotFound(err) != tc.deleted {
			t.Errorf("%s: %v", tc.reason, err)
		}
	}
}
