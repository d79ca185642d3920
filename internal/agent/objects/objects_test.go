package objects

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/certplane/certplane/internal/apitest"
)

// versions are what a server serves; the value is the error of discovering it.
type versions struct {
	discovery.DiscoveryInterface
	served map[schema.GroupVersion]error
}

func (v *versions) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	for served, err := range v.served {
		if served.String() == version {
			return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "clustertrustbundles"}}}, err
		}
	}
	if err := v.served[schema.GroupVersion{}]; err != nil {
		return nil, err
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, version)
}

var (
	v1, v1beta1 = certificatesv1.SchemeGroupVersion, certificatesv1beta1.SchemeGroupVersion
	nothing     = schema.GroupVersion{}
)

func follow(ctx context.Context, discovery discovery.DiscoveryInterface, changed func(*certificatesv1.ClusterTrustBundle), objects ...runtime.Object) *Follower[certificatesv1.ClusterTrustBundle] {
	kind := Kind[certificatesv1.ClusterTrustBundle]{Resource: "clustertrustbundles", Versions: []schema.GroupVersion{v1, v1beta1}, Changed: changed}
	return New(ctx, kind, discovery, dynamicfake.NewSimpleDynamicClient(scheme.Scheme, objects...))
}

func old(name string) *certificatesv1beta1.ClusterTrustBundle {
	return &certificatesv1beta1.ClusterTrustBundle{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.String(), Kind: "ClusterTrustBundle"},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1beta1.ClusterTrustBundleSpec{TrustBundle: "of " + name},
	}
}

func TestVersions(t *testing.T) {
	down := errors.New("connection refused")
	tests := []struct {
		reason string
		served map[schema.GroupVersion]error
		want   schema.GroupVersion
		err    string
	}{
		{"both", map[schema.GroupVersion]error{v1: nil, v1beta1: nil}, v1, ""},
		{"the old one", map[schema.GroupVersion]error{v1beta1: nil}, v1beta1, ""},
		{"the new one", map[schema.GroupVersion]error{v1: nil}, v1, ""},
		{"none", map[schema.GroupVersion]error{}, nothing, "does not have clustertrustbundles"},
		{"no answer", map[schema.GroupVersion]error{nothing: down}, nothing, "connection refused"},
		{"an answer in part", map[schema.GroupVersion]error{v1: down}, v1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			got, err := follow(t.Context(), &versions{served: tt.served}, nil).newest()
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Fatalf("error = %v, want %q", err, tt.err)
			}
			if tt.err == "" && got.GroupVersion() != tt.want {
				t.Errorf("version %s, want %s", got.GroupVersion(), tt.want)
			}
		})
	}
}

// An API that is not served yet is found once it is.
func TestLateAPI(t *testing.T) {
	server := &versions{served: map[schema.GroupVersion]error{}}
	var changes atomic.Int64
	f := follow(t.Context(), server, func(*certificatesv1.ClusterTrustBundle) { changes.Add(1) }, old("a"))
	if _, err := f.All(t.Context()); err == nil {
		t.Fatal("objects of an API that is not there")
	}
	server.served[v1beta1] = nil
	all, err := f.All(t.Context())
	if err != nil || len(all) != 1 || all[0].Spec.TrustBundle != "of a" {
		t.Fatalf("All = %v, %v", all, err)
	}
	if one, err := f.Get(t.Context(), "", "a"); err != nil || one == nil || one.Name != "a" {
		t.Errorf("Get = %v, %v", one, err)
	}
	if none, err := f.Get(t.Context(), "", "b"); err != nil || none != nil {
		t.Errorf("Get of what is not there = %v, %v", none, err)
	}
	apitest.Eventually(t, "the object is told", func() bool { return changes.Load() == 1 })
	if err := f.Create(t.Context(), "", "ClusterTrustBundle", &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "c"}}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the new object is told", func() bool { return changes.Load() == 2 })
	if one, err := f.Get(t.Context(), "", "c"); err != nil || one == nil {
		t.Errorf("Get of what was created = %v, %v", one, err)
	}
}

// A version that a server no longer serves is forgotten.
func TestVersionGoes(t *testing.T) {
	server := &versions{served: map[schema.GroupVersion]error{v1beta1: nil}}
	f := follow(t.Context(), server, nil, old("a"))
	first, err := f.follow()
	if err != nil {
		t.Fatal(err)
	}
	delete(server.served, v1beta1)
	server.served[v1] = nil
	f.forget(first)
	second, err := f.follow()
	if err != nil || second.resource.GroupVersion() != v1 {
		t.Errorf("after the old version has gone: %v, %v", second, err)
	}
}

// Unknown objects are an error, not an empty list.
func TestUnknown(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := follow(ctx, &versions{served: map[schema.GroupVersion]error{v1: nil}}, nil)
	if _, err := f.All(ctx); !errors.Is(err, ErrUnknown) {
		t.Errorf("error = %v, want ErrUnknown", err)
	}
}
