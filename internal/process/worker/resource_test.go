package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const resourceName = "clustertrustbundles"

func bundles(lookup Lookup) Resource {
	return Resource{
		Group: "certificates.k8s.io", Versions: []string{"v1", "v1beta1", "v1alpha1"}, Name: resourceName, Lookup: lookup,
		first: time.Millisecond, every: time.Millisecond,
	}
}

func TestVersion(t *testing.T) {
	const group = "certificates.k8s.io/"
	notFound := apierrors.NewNotFound(schema.GroupResource{}, "x")
	for _, tc := range []struct {
		reason string
		served map[string]string // a resource of each version
		err    error
		want   string
		fails  bool
	}{
		{"the best", map[string]string{group + "v1": resourceName, group + "v1beta1": resourceName}, notFound, "v1", false},
		{"the best that has bundles", map[string]string{group + "v1": "certificatesigningrequests", group + "v1alpha1": resourceName}, notFound, "v1alpha1", false},
		{"none has", map[string]string{group + "v1": "certificatesigningrequests"}, notFound, "", false},
		{"nothing at all", nil, notFound, "", false},
		{"no answer", map[string]string{group + "v1": "certificatesigningrequests", group + "v1alpha1": resourceName}, errors.New("refused"), "", true},
	} {
		r := bundles(api(tc.served, tc.err))
		if got, err := r.Version(t.Context()); got != tc.want || (err != nil) != tc.fails {
			t.Errorf("%s: %q, %v", tc.reason, got, err)
		}
	}
}

// A version counts only if it has all resources.
func TestOthers(t *testing.T) {
	has := &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "acmeendpoints"}, {Name: "signers"}}}
	lookup := func(context.Context, string) (*metav1.APIResourceList, error) { return has, nil }
	version := schema.GroupVersion{Group: "certplane.dev", Version: "v1alpha1"}
	for other, want := range map[string]string{"signers": "v1alpha1", "revocations": ""} {
		if got, err := OneVersion(version, "acmeendpoints", lookup, other).Version(t.Context()); got != want || err != nil {
			t.Errorf("with %s: %q, %v", other, got, err)
		}
	}
}

// api returns discovery of these resources. For any other resource, it returns
// err.
func api(served map[string]string, err error) func(context.Context, string) (*metav1.APIResourceList, error) {
	return func(_ context.Context, version string) (*metav1.APIResourceList, error) {
		if resource, ok := served[version]; ok {
			return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: resource}}}, nil
		}
		return nil, err
	}
}

// An API without the resource is asked repeatedly.
func TestNotServed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	r := bundles(func(context.Context, string) (*metav1.APIResourceList, error) {
		if asked++; asked == 9 {
			cancel()
		}
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "x")
	})
	r.Follow(ctx, "Testing", func(context.Context, string) error {
		t.Error("work without the resource")
		return nil
	})
}

// Work ends when the API has another version, but not when the API does not
// answer. It is started again when it fails.
func TestFollow(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	r := bundles(func(_ context.Context, version string) (*metav1.APIResourceList, error) {
		asked++
		switch {
		case asked == 3:
			return nil, errors.New("refused")
		case version == "certificates.k8s.io/v1" && asked < 7:
			return nil, apierrors.NewNotFound(schema.GroupResource{}, "x")
		}
		return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: resourceName}}}, nil
	})
	var worked []string
	r.Follow(ctx, "Testing", func(ctx context.Context, version string) error {
		worked = append(worked, version)
		switch len(worked) {
		case 1:
			<-ctx.Done()
			return ctx.Err()
		case 2:
			return errors.New("broken")
		}
		cancel()
		return nil
	})
	if len(worked) != 3 || worked[0] != "v1beta1" || worked[1] != "v1" || worked[2] != "v1" {
		t.Errorf("worked for %q", worked)
	}
}
