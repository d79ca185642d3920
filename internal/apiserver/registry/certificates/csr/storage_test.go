package csr

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"

	"github.com/certplane/certplane/internal/apiserver/registry/kind"
)

// nowhere returns a store without a database, which is enough to check the
// endpoints.
func nowhere() generic.RESTOptionsGetter {
	return generic.RESTOptions{
		StorageConfig:  &storagebackend.ConfigForResource{},
		ResourcePrefix: "certificatesigningrequests",
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error),
			func() runtime.Object, func() runtime.Object, storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
			return nil, func() {}, nil
		},
	}
}

func newEndpoints(t testing.TB) Endpoints {
	t.Helper()
	endpoints, err := New(Config{
		RESTOptions: nowhere(),
		Typer:       newStrategy(t),
		Durations:   true,
		Register:    metrics.NewKubeRegistry().Register,
		Now:         func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return endpoints
}

func TestEndpoints(t *testing.T) {
	endpoints := newEndpoints(t)
	if diff := cmp.Diff([]string{"csr"}, endpoints.Main.ShortNames()); diff != "" {
		t.Errorf("short names (-want +got):\n%s", diff)
	}
	if name := endpoints.Main.GetSingularName(); name != "certificatesigningrequest" {
		t.Errorf("singular name is %q", name)
	}
	if _, ok := any(endpoints.Main).(rest.CategoriesProvider); ok {
		t.Error("the resource is in a category")
	}
	if _, ok := any(endpoints.Approval).(rest.TableConvertor); ok {
		t.Error("/approval has a table")
	}
	if table, err := endpoints.Status.ConvertToTable(context.Background(), newCSR(t), nil); err != nil || len(table.Rows) != 1 {
		t.Errorf("/status has no table: %v, %v", table, err)
	}
	if endpoints.Main.BeginUpdate != nil || endpoints.Approval.Store.BeginUpdate != nil || endpoints.Status.Store.BeginUpdate == nil {
		t.Error("durations are counted elsewhere than in /status")
	}
	if endpoints.Main.ReturnDeletedObject {
		t.Error("a delete returns the object")
	}
}

func TestEndpointsKnowTheirStrategies(t *testing.T) {
	endpoints := newEndpoints(t)
	for _, tc := range []struct {
		endpoint  string
		got, want any
	}{
		{"resource", endpoints.Main.UpdateStrategy, strategy{}},
		{"/status", endpoints.Status.Store.UpdateStrategy, statusStrategy{}},
		{"/approval", endpoints.Approval.Store.UpdateStrategy, approvalStrategy{}},
		{"resource, reset fields", endpoints.Main.ResetFieldsStrategy, strategy{}},
		{"/status, reset fields", endpoints.Status.Store.ResetFieldsStrategy, statusStrategy{}},
		{"/approval, reset fields", endpoints.Approval.Store.ResetFieldsStrategy, approvalStrategy{}},
	} {
		if got, want := typeName(tc.got), typeName(tc.want); got != want {
			t.Errorf("%s: strategy is %s, want %s", tc.endpoint, got, want)
		}
	}
	key, err := endpoints.Main.KeyFunc(context.Background(), "name")
	if err != nil || key != "/certificatesigningrequests/name" {
		t.Errorf("key is %q, %v", key, err)
	}
}

func TestSelectors(t *testing.T) {
	obj := newCSR(t, func(c *csr) { c.Labels = map[string]string{"team": "a"} })
	store := newEndpoints(t).Main
	for _, tc := range []struct {
		label, field string
		want         bool
	}{
		{"team=a", "spec.signerName=example.com/signer", true},
		{"", "metadata.name=test,spec.signerName==example.com/signer", true},
		{"", "spec.signerName!=example.com/signer", false},
		{"team=b", "", false},
		{"", "metadata.name=other", false},
	} {
		label, err := labels.Parse(tc.label)
		if err != nil {
			t.Fatal(err)
		}
		predicate := store.PredicateFunc(label, fields.ParseSelectorOrDie(tc.field))
		got, err := predicate.Matches(obj)
		if err != nil || got != tc.want {
			t.Errorf("%q %q: got %v, %v; want %v", tc.label, tc.field, got, err, tc.want)
		}
	}
	if _, _, err := attributes(&metav1.Status{}); err == nil {
		t.Error("a Status has attributes")
	}
}

// A subresource must not create objects, even in a server-side apply.
func TestSubresourcesNeverCreate(t *testing.T) {
	for name, s := range map[string]kind.Part{
		"/status":   newEndpoints(t).Status.Part,
		"/approval": newEndpoints(t).Approval,
	} {
		var ignoredNotFound bool
		s.Store.Storage.Storage = absent{ignoredNotFound: &ignoredNotFound}
		info := rest.DefaultUpdatedObjectInfo(newCSR(t))
		_, created, err := s.Update(in("v1"), "test", info, nil, nil, true, &metav1.UpdateOptions{})
		if err == nil || created || ignoredNotFound {
			t.Errorf("%s: created %v, ignored that there is nothing %v, error %v", name, created, ignoredNotFound, err)
		}
		if _, ok := s.New().(*certificatesv1.CertificateSigningRequest); !ok {
			t.Errorf("%s: takes a %T", name, s.New())
		}
		s.Destroy()
		s.Destroy()
	}
}

// absent is an empty store.
type absent struct {
	storage.Interface
	ignoredNotFound *bool
}

func (absent) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

func (a absent) GuaranteedUpdate(_ context.Context, _ string, _ runtime.Object, ignoreNotFound bool, _ *storage.Preconditions, _ storage.UpdateFunc, _ runtime.Object) error {
	*a.ignoredNotFound = ignoreNotFound
	return errors.New("there is nothing")
}

func typeName(v any) string { return fmt.Sprintf("%T", v) }
