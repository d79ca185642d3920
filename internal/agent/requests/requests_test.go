package requests

import (
	"errors"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"

	"github.com/certplane/certplane/internal/agent/credential"
)

type servesAll struct{ discovery.DiscoveryInterface }

func (servesAll) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "podcertificaterequests"}}}, nil
}

// A request that the agent's local copy does not have yet is not gone; only the
// server can say that it is gone.
func TestSee(t *testing.T) {
	stored := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "certificates.k8s.io/v1", "kind": "PodCertificateRequest",
		"metadata": map[string]any{"namespace": "ns", "name": "req-late"},
	}}
	client := dynamicfake.NewSimpleDynamicClient(scheme.Scheme)
	away := false
	client.PrependReactor("list", "podcertificaterequests", func(action clienttesting.Action) (bool, runtime.Object, error) {
		fields := action.(clienttesting.ListAction).GetListRestrictions().Fields.String()
		list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "certificates.k8s.io/v1", "kind": "PodCertificateRequestList"}}
		switch {
		case !strings.Contains(fields, "spec.nodeName=n"):
			t.Errorf("a list of more than the node's: %s", fields)
		case away && strings.Contains(fields, "metadata.name"):
			return true, nil, errors.New("connection refused")
		case strings.Contains(fields, "metadata.name=req-late"):
			list.Items = append(list.Items, *stored)
		}
		return true, list, nil
	})
	c := New(t.Context(), "n", servesAll{}, client, func(types.NamespacedName) {})
	seen, err := c.See(t.Context(), "ns", &credential.Request{Name: "req-late"})
	if err != nil || seen.Gone || seen.Request == nil || seen.Request.Name != "req-late" {
		t.Errorf("one that is not known yet: %+v, %v", seen, err)
	}
	seen, err = c.See(t.Context(), "ns", &credential.Request{Name: "req-gone"})
	if err != nil || !seen.Gone || seen.Request != nil {
		t.Errorf("one that is gone: %+v, %v", seen, err)
	}
	away = true
	if seen, err = c.See(t.Context(), "ns", &credential.Request{Name: "req-gone"}); err == nil || seen.Gone {
		t.Errorf("with the server away: %+v, %v", seen, err)
	}
}

func TestNever(t *testing.T) {
	kind := schema.GroupKind{Group: certificatesv1.GroupName, Kind: "PodCertificateRequest"}
	for err, want := range map[error]bool{
		apierrors.NewInvalid(kind, "x", nil):                                 true,
		apierrors.NewBadRequest("x"):                                         true,
		apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("x")): false,
		apierrors.NewInternalError(errors.New("not seen yet")):               false,
		errors.New("connection refused"):                                     false,
	} {
		if got := IsPermanent(err); got != want {
			t.Errorf("%v: never = %v", err, got)
		}
	}
}
