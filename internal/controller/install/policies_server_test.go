package install_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/run/server"
)

func policiesOf(t *testing.T, s *apitest.Server) dynamic.ResourceInterface {
	t.Helper()
	return stored(t, s, "certificatepolicies")
}

func networks(policy *unstructured.Unstructured) string {
	list, _, _ := unstructured.NestedStringSlice(policy.Object, "spec", "certificate", "names", "ip", "cidrs")
	if len(list) != 1 {
		return ""
	}
	return list[0]
}

// Policies are kept up to date until a user changes them, and come back.
func TestPoliciesAreInstalledAndKept(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) {
		c.Policy.Install = []string{"kubelet-serving", "no-system-identities"}
		c.Policy.KubeletServing = policies.KubeletServing{NodeZones: []string{"nodes.example.com"}, NodeCIDRs: []string{"10.0.0.0/8"}}
	})
	api := policiesOf(t, s)
	first := await(t, api, "kubelet-serving", func(u *unstructured.Unstructured) bool { return networks(u) == "10.0.0.0/8" })
	await(t, api, "no-system-identities", there)
	if err := api.Delete(t.Context(), "kubelet-serving", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, api, "kubelet-serving", func(u *unstructured.Unstructured) bool { return u.GetUID() != first.GetUID() })

	s.Config.Policy.KubeletServing.NodeCIDRs = []string{"10.1.0.0/16"}
	s.Restart(t)
	api = policiesOf(t, s)
	await(t, api, "kubelet-serving", func(u *unstructured.Unstructured) bool { return networks(u) == "10.1.0.0/16" })
	own := []byte(`{"spec": {"certificate": {"names": {"ip": {"cidrs": ["10.2.0.0/16"]}}}}}`)
	if _, err := api.Patch(t.Context(), "kubelet-serving", types.MergePatchType, own, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitChangedByHand(t, s, "CertificatePolicy", "kubelet-serving", "spec")
	if kept := await(t, api, "kubelet-serving", there); networks(kept) != "10.2.0.0/16" {
		t.Errorf("the change by hand is gone: %s", networks(kept))
	}
}

// A ready-made policy that allows what a protected policy is about is for people to
// write: the controller says so, and writes the others.
func TestPoliciesThatNeedPeople(t *testing.T) {
	s := apitest.Start(t)
	api := policiesOf(t, s)
	apitest.Eventually(t, "the API has policies", func() bool {
		_, err := api.List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	protected := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "certplane.dev/v1alpha1", "kind": "CertificatePolicy", "metadata": map[string]any{"name": "guarded"},
		"spec": map[string]any{
			"effect": "Limit", "match": map[string]any{"signers": []any{"kubernetes.io/kubelet-*"}},
			"protection": map[string]any{"people": map[string]any{"count": int64(2)}},
		},
	}}
	if _, err := api.Create(t.Context(), protected, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Config.Policy.Install = []string{"kubelet-serving", "no-system-identities"}
	s.Config.Policy.KubeletServing = policies.KubeletServing{NodeZones: []string{"nodes.example.com"}, NodeCIDRs: []string{"10.0.0.0/8"}}
	s.Restart(t)
	api = policiesOf(t, s)
	awaitEvent(t, s, "NeedsPeople", "CertificatePolicy", "kubelet-serving", "certificate policy guarded: changing the policy needs people; your approval does not count: service accounts do not count as people")
	await(t, api, "no-system-identities", there)
	if _, err := api.Get(t.Context(), "kubelet-serving", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the controller has written it: %v", err)
	}
}
